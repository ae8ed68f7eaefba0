// The inventory tree: keyboard navigation by the ARIA tree pattern, levels that are loaded when opened, and open rows
// that are stored for other pages.
import { on, onContent } from "./dom.js";
import { recall, remember } from "./store.js";

const MOST_REMEMBERED = 200;
const ITEM = "[role=treeitem]";

const isExpanded = (item) => item.getAttribute("aria-expanded") === "true";
const visible = (tree) => [...tree.querySelectorAll(ITEM)].filter((item) => !item.parentElement.closest('[aria-expanded="false"]'));
const nameOf = (item) => (item.querySelector(".name") ?? item).textContent.trim().toLowerCase();
const memoryKey = (item) => `${item.closest("[role=tree]").id} ${item.dataset.key}`;

const readOpen = () => { try { return JSON.parse(recall("open") ?? "[]"); } catch { return []; } };
let open = new Set(readOpen());

/** Returns the level below a row, creating the element that the server renders for open rows. */
function levelOf(item) {
  const drawn = item.querySelector(":scope > [data-lazy]");
  if (drawn || !item.dataset.key) return drawn;
  const view = item.closest("[role=tree]").id.replace(/^tree-/, "");
  const level = document.createElement("ul");
  const attributes = {
    role: "group", class: "level", id: `${item.id}-level`, "data-lazy": "", "data-live": (item.dataset.follow ?? "vms").replace("*", item.dataset.key), "hx-ext": "morph",
    "hx-get": `/tree/${view}/${encodeURIComponent(item.dataset.key)}`, "hx-swap": "morph:innerHTML", "hx-trigger": "open, poke",
  };
  for (const [name, value] of Object.entries(attributes)) level.setAttribute(name, value);
  item.append(level);
  htmx.process(level);
  return level;
}

function expand(item, expanded) {
  item.setAttribute("aria-expanded", String(expanded));
  if (expanded) levelOf(item)?.dispatchEvent(new CustomEvent("open"));
  document.dispatchEvent(new CustomEvent("quantix:tree"));
}

function toggle(item) {
  const expanded = !isExpanded(item);
  expand(item, expanded);
  if (!item.dataset.key) return;
  open = new Set(readOpen()); // another tab may have changed the stored rows
  open.delete(memoryKey(item));
  if (expanded) open.add(memoryKey(item));
  remember("open", JSON.stringify([...open].slice(-MOST_REMEMBERED)));
}

const restored = new WeakSet(); // rows already reopened from storage; not reopened again after a refresh

// Only one row of the tree is a tab stop. Enter on a row follows the row's link.
function prepare() {
  for (const tree of document.querySelectorAll("[role=tree]")) {
    const items = [...tree.querySelectorAll(ITEM)];
    for (const item of items) {
      if (!item.hasAttribute("tabindex")) item.tabIndex = -1;
      item.querySelector(":scope > .row > a")?.setAttribute("tabindex", "-1");
      if (item.dataset.key && !restored.has(item)) {
        restored.add(item);
        if (item.getAttribute("aria-expanded") === "false" && open.has(memoryKey(item))) expand(item, true);
      }
    }
    if (!items.some((item) => item.tabIndex === 0)) {
      const first = items.find((item) => item.hasAttribute("aria-current")) ?? items[0];
      if (first) first.tabIndex = 0;
    }
  }
}

function focus(item) {
  if (!item) return;
  for (const other of item.closest("[role=tree]").querySelectorAll(`${ITEM}[tabindex="0"]`)) other.tabIndex = -1;
  item.tabIndex = 0;
  item.focus();
}

let typed = "", typedAt = 0;

function typeahead(items, item, key) {
  typed = Date.now() - typedAt > 700 ? key : typed + key;
  typedAt = Date.now();
  const start = items.indexOf(item) + (typed.length === 1 ? 1 : 0);
  focus([...items.slice(start), ...items.slice(0, start)].find((other) => nameOf(other).startsWith(typed)));
}

on("keydown", ITEM, (event, item) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target !== item) return;
  const items = visible(item.closest("[role=tree]"));
  const at = items.indexOf(item);
  const parent = item.parentElement.closest(ITEM);
  switch (event.key) {
    case "ArrowDown": focus(items[at + 1]); break;
    case "ArrowUp": focus(items[at - 1]); break;
    case "Home": focus(items[0]); break;
    case "End": focus(items.at(-1)); break;
    case "ArrowRight":
      if (item.getAttribute("aria-expanded") === "false") toggle(item);
      else if (isExpanded(item)) focus(item.querySelector(`:scope > ul > ${ITEM}`));
      break;
    case "ArrowLeft":
      if (isExpanded(item)) toggle(item);
      else focus(parent);
      break;
    case "Enter": case " ": item.querySelector(":scope > .row > a")?.click(); break;
    default:
      if (!/^[\p{L}\p{N}]$/u.test(event.key)) return;
      typeahead(items, item, event.key.toLowerCase());
  }
  event.preventDefault();
  event.stopImmediatePropagation();
});

on("click", `${ITEM} > .row > .twist`, (_, twist) => {
  const item = twist.closest(ITEM);
  if (item.hasAttribute("aria-expanded")) toggle(item);
});

onContent(prepare);

// On a wide screen the tree is no drawer, so an open drawer is closed.
matchMedia("(min-width: 901px)").addEventListener("change", () => {
  const drawer = document.querySelector(".tree:popover-open");
  drawer?.hidePopover();
});
