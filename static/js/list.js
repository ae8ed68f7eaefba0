// Lists: row selection, the count in the bulk bar, and keyboard navigation between rows.
import { isTyping, moveFocus, on, onContent } from "./dom.js";

const rowBoxes = (list) => [...list.querySelectorAll("[data-select-row]")];
let lastBox = null;

function count(list) {
  const boxes = rowBoxes(list), chosen = boxes.filter((box) => box.checked).length;
  for (const place of list.querySelectorAll("[data-count]")) place.textContent = String(chosen);
  const all = list.querySelector("[data-select-all]");
  if (!all) return;
  all.checked = chosen > 0 && chosen === boxes.length;
  all.indeterminate = chosen > 0 && chosen < boxes.length;
}

const countAll = () => document.querySelectorAll("[data-list]").forEach(count);

on("change", "[data-select-all]", (_, all) => {
  const list = all.closest("[data-list]");
  for (const box of rowBoxes(list)) box.checked = all.checked;
  count(list);
});

on("click", "[data-select-row]", (event, box) => {
  const boxes = rowBoxes(box.closest("[data-list]"));
  if (event.shiftKey && lastBox && boxes.includes(lastBox)) {
    const [from, to] = [boxes.indexOf(lastBox), boxes.indexOf(box)].sort((a, b) => a - b);
    for (const other of boxes.slice(from, to + 1)) other.checked = box.checked;
  }
  lastBox = box;
  count(box.closest("[data-list]"));
});

document.addEventListener("reset", () => setTimeout(countAll)); // the checkboxes change after the event
onContent(countAll);

const STEPS = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1 };

on("keydown", ".table-wrap", (event, wrap) => {
  if (isTyping(event.target) || event.ctrlKey || event.metaKey || event.altKey || event.target.closest("details.menu")) return;
  const row = event.target.closest("tbody tr");
  if (event.key === "x" && row) {
    row.querySelector("[data-select-row]")?.click();
  } else if (STEPS[event.key] && (row || event.key.length === 1)) {
    const links = [...wrap.querySelectorAll("tbody tr")].map((each) => each.querySelector("th a, td a")).filter(Boolean);
    if (row && !links.includes(document.activeElement)) row.querySelector("th a, td a")?.focus();
    moveFocus(links, STEPS[event.key]);
  } else {
    return;
  }
  event.preventDefault();
});

// Few visitors of a list filter it, so the suggestions are loaded with the first focus of a filter.
let suggestions = null;
const loadSuggestions = () => { suggestions ??= import("./complete.js").then(({ start }) => start(on)); };
on("focusin", "[data-complete]", loadSuggestions);
if (document.activeElement?.matches("[data-complete]")) loadSuggestions();
