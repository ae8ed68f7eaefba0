// Completion of filters: the server returns suggestions, and a chosen one replaces the word before the caret. list.js
// loads this module when such a field first has the focus, and gives it on() of dom.js, which would otherwise be a file of
// its own on every page.
const WAIT = 120; // ms after the last key
let serial = 0;

const listOf = (input) => document.getElementById(input.getAttribute("aria-controls") ?? "");
const options = (list) => [...list.querySelectorAll("[role=option]")];

function prepare(input) {
  if (listOf(input)) return;
  const list = document.createElement("ul");
  list.className = "complete";
  list.id = `complete-${++serial}`;
  list.hidden = true;
  list.setAttribute("role", "listbox");
  list.setAttribute("aria-label", "Suggestions");
  const name = input.closest("label")?.querySelector(".vh")?.textContent ?? "Filter";
  // the suggestions are inside the label and must not become part of the field's accessible name
  input.setAttribute("aria-label", name);
  input.setAttribute("role", "combobox");
  input.setAttribute("aria-autocomplete", "list");
  input.setAttribute("aria-expanded", "false");
  input.setAttribute("aria-controls", list.id);
  input.parentElement.append(list);
}

function close(input) {
  const list = listOf(input);
  if (!list) return;
  list.hidden = true;
  input.setAttribute("aria-expanded", "false");
  input.removeAttribute("aria-activedescendant");
}

let asking = new AbortController(), timer = 0;

function ask(input) {
  clearTimeout(timer);
  asking.abort();
  timer = setTimeout(async () => {
    asking = new AbortController();
    const address = new URL(input.dataset.complete, location.href);
    address.searchParams.set("q", input.value.slice(0, input.selectionStart));
    try {
      const answer = await fetch(address, { headers: { "HX-Request": "true" }, signal: asking.signal });
      if (answer.ok && document.activeElement === input) offer(input, await answer.text());
    } catch { /* aborted by a newer request, or no network: no suggestions */ }
  }, WAIT);
}

function offer(input, html) {
  const list = listOf(input);
  list.innerHTML = html;
  options(list).forEach((option, index) => { option.id ||= `${list.id}-${index}`; });
  if (options(list).length === 0) return close(input);
  list.hidden = false;
  input.setAttribute("aria-expanded", "true");
  input.removeAttribute("aria-activedescendant");
}

function mark(input, step) {
  const all = options(listOf(input));
  const at = all.findIndex((option) => option.getAttribute("aria-selected") === "true");
  const next = all[(at + step + all.length + (at < 0 && step < 0 ? 1 : 0)) % all.length];
  all.forEach((option) => option.setAttribute("aria-selected", String(option === next)));
  input.setAttribute("aria-activedescendant", next.id);
  next.scrollIntoView({ block: "nearest" });
}

function pick(input, option) {
  const value = option.dataset.value, caret = input.selectionStart;
  const before = input.value.slice(0, caret).replace(/\S*$/, "") + value + (value.endsWith(":") ? "" : " ");
  input.value = before + input.value.slice(caret).trimStart();
  input.setSelectionRange(before.length, before.length);
  close(input);
  input.focus();
  if (value.endsWith(":")) ask(input);
}

/** Adds the listeners, and prepares a field that already has the focus. */
export function start(on) {
  on("focusin", "[data-complete]", (_, input) => prepare(input));
  if (document.activeElement?.matches("[data-complete]")) prepare(document.activeElement);
  on("focusout", "[data-complete]", (_, input) => close(input));
  on("input", "[data-complete]", (_, input) => ask(input));
  on("pointerdown", ".complete [role=option]", (event, option) => {
    event.preventDefault(); // keeps the focus in the field
    pick(option.closest("label").querySelector("[data-complete]"), option);
  });
  on("keydown", "[data-complete]", (event, input) => {
    const list = listOf(input);
    const isOpen = list && !list.hidden;
    const chosen = isOpen && list.querySelector('[aria-selected="true"]');
    if (event.key === "ArrowDown" && !isOpen) ask(input);
    else if (event.key === "ArrowDown") mark(input, 1);
    else if (event.key === "ArrowUp" && isOpen) mark(input, -1);
    else if (event.key === "Escape" && isOpen) close(input);
    else if ((event.key === "Enter" || event.key === "Tab") && chosen) pick(input, chosen);
    else return;
    event.preventDefault();
  });
}
