// Menus (<details class="menu">): placed beside their button whatever clips it, closed by Escape or a click elsewhere.
import { isTyping, moveFocus, on } from "./dom.js";

const GAP = 4, EDGE = 8; // px

/** Fixes a list to the screen beside the box {left, right, top, bottom}, above it where below is too little room. */
export function place(list, box, alignRight = false) {
  list.classList.add("placed");
  list.style.left = list.style.top = "0"; // or the room at its old place would limit the width
  const { width, height } = list.getBoundingClientRect();
  const left = alignRight ? box.right - width : box.left;
  const below = box.bottom + GAP + height <= innerHeight - EDGE || box.top < innerHeight / 2;
  list.style.left = `${Math.max(EDGE, Math.min(left, innerWidth - width - EDGE))}px`;
  list.style.top = `${Math.max(EDGE, below ? Math.min(box.bottom + GAP, innerHeight - height - EDGE) : box.top - GAP - height)}px`;
}

/** What arrow keys reach in a menu. */
const items = (list) => [...list.querySelectorAll("a, button, input, summary")].filter((item) => item.offsetParent !== null);

const opened = () => [...document.querySelectorAll("details.menu[open]")];
const closeAll = (except) => opened().forEach((menu) => { if (menu !== except && !menu.contains(except)) menu.open = false; });
const anchors = new WeakMap(); // where each menu's button stood when the list was placed

function placeOf(menu) {
  const list = menu.querySelector(":scope > .menu-list"), box = menu.querySelector("summary").getBoundingClientRect();
  anchors.set(menu, box);
  if (list) place(list, box, list.matches(".right"));
}

/** Whether what scrolled took the menu's button along: the tree beside a page scrolls without it, and a refresh may scroll anything. */
function moved(menu) {
  const was = anchors.get(menu), { left, top } = menu.querySelector("summary").getBoundingClientRect();
  return was && (Math.abs(left - was.left) > 1 || Math.abs(top - was.top) > 1);
}

document.addEventListener("toggle", ({ target }) => {
  if (!(target instanceof Element) || !target.matches("details.menu") || !target.open) return;
  closeAll(target);
  placeOf(target);
}, { capture: true });

// What htmx brings in may move an open menu's button, change the size of its list, and take the focused item with it.
document.addEventListener("htmx:afterSettle", ({ target }) => {
  opened().forEach(placeOf);
  const menu = target.closest?.("details.menu[open]");
  if (menu && target.matches(".menu-list") && document.activeElement === document.body) items(target)[0]?.focus();
});

document.addEventListener("click", ({ target }) => {
  closeAll(target.closest?.("details.menu"));
  const item = target.closest?.(".menu-item");
  if (item && !item.matches('[aria-disabled="true"], label')) closeAll(null);
});
document.addEventListener("focusin", ({ target }) => closeAll(target.closest("details.menu")));
// A phone's keyboard moves and shrinks the page: a menu in which one types stays.
const typing = () => document.activeElement?.matches(".menu-list input") ?? false;
addEventListener("resize", () => { if (!typing()) closeAll(null); });
document.addEventListener("scroll", ({ target }) => {
  if (target instanceof Element && target.closest(".menu-list") || typing()) return;
  opened().forEach((menu) => { if (moved(menu)) menu.open = false; });
}, { capture: true, passive: true });

on("keydown", "details.menu", (event, menu) => {
  const list = menu.querySelector(":scope > .menu-list");
  if (event.key === "Escape" && menu.open) {
    menu.open = false;
    menu.querySelector("summary").focus();
    event.preventDefault(); // a dialog around it stays open
  } else if (event.key === "ArrowDown" && !menu.open && event.target.matches("summary")) {
    menu.open = true;
    event.preventDefault();
    requestAnimationFrame(() => items(list)[0]?.focus());
  } else if (list && menu.open) {
    arrows(event, list);
  }
});

/** Arrow keys, Home and End inside a list of items; in a field, Home and End stay the field's. */
export function arrows(event, list) {
  const all = items(list);
  if (event.key === "ArrowDown") moveFocus(all, 1);
  else if (event.key === "ArrowUp") moveFocus(all, -1);
  else if (isTyping(event.target)) return;
  else if (event.key === "Home") all[0]?.focus();
  else if (event.key === "End") all.at(-1)?.focus();
  else return;
  event.preventDefault();
}
