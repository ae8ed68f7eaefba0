// Context menus: an element with data-menu="/menus/vm/ID" shows the response of that address at the pointer. In the
// tree, "*" is replaced by the row's data-key, as a path. The server renders the items for the user and the object's
// current state.
import { on } from "./dom.js";
import { arrows, place } from "./menu.js";

let list = null;

function makeList() {
  list = document.createElement("div");
  list.id = "context-menu";
  list.className = "menu-list context placed";
  list.popover = "auto";
  list.setAttribute("role", "region");
  list.setAttribute("aria-label", "Actions");
  list.addEventListener("keydown", (event) => arrows(event, list));
  list.addEventListener("click", ({ target }) => {
    if (target.closest('.menu-item:not([aria-disabled="true"], label, summary)')) list.hidePopover();
  });
  document.body.append(list);
}

async function open(owner, box) {
  if (!list) makeList();
  list.textContent = "";
  const address = owner.dataset.menu.replace("*", () => owner.dataset.key.replace(":", "/"));
  await htmx.ajax("GET", address, { source: list, target: list, swap: "innerHTML" });
  if (list.childElementCount === 0) return; // refused: the toast shows the reason
  list.showPopover();
  place(list, box);
  list.querySelector("a, button, summary")?.focus({ preventScroll: true });
}

on("contextmenu", "[data-menu]", (event, owner) => {
  if (event.shiftKey && event.button === 2) return; // Shift + right click: the browser's own menu
  if (event.target.closest("input:not([type=checkbox]), textarea")) return;
  event.preventDefault();
  const byKey = event.button !== 2;
  const box = byKey ? (owner.querySelector(".row, a") ?? owner).getBoundingClientRect()
    : { left: event.clientX, right: event.clientX, top: event.clientY, bottom: event.clientY };
  open(owner, box);
});

on("click", "[data-menu-open]", (_, button) => open(button.closest("[data-menu]"), button.getBoundingClientRect()));
