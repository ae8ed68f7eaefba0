// Dialogs. <a href="/vms/ID/delete" data-dialog> shows that address in the shared dialog; without scripts it is a page. What it
// shows is an element of its own within it, for the toasts stand in the dialog beside that.
import { on } from "./dom.js";

const shared = () => document.getElementById("dialog");

function show(content) {
  const dialog = content.closest("dialog");
  const title = dialog.querySelector("#dialog-title");
  if (title) {
    dialog.setAttribute("aria-labelledby", title.id);
    dialog.removeAttribute("aria-label");
  }
  if (!dialog.open) dialog.showModal();
  begin(dialog);
}

// One types at once what a dialog asks for; where it asks for nothing, Enter does what its button says.
function begin(dialog) {
  const seen = (selector) => [...dialog.querySelectorAll(selector)].find((element) => element.checkVisibility() && !element.disabled);
  const first = seen("[aria-invalid=true]") ?? seen(".pad :is(input:not([type=hidden], [type=radio]:not(:checked)), select, textarea)") ?? seen("footer button:is(.primary, .danger)");
  first?.focus();
}

on("click", "[data-dialog]", (event, opener) => {
  if (event.ctrlKey || event.metaKey || event.shiftKey || event.button !== 0) return;
  const target = opener.dataset.dialog ? document.querySelector(opener.dataset.dialog) : shared();
  if (!target) return;
  event.preventDefault();
  if (opener.dataset.dialog) show(target);
  else htmx.ajax("GET", opener.href, { source: target, target, swap: "innerHTML" });
});

document.addEventListener("htmx:afterSwap", ({ detail }) => {
  if (detail.target === shared() && detail.target.childElementCount > 0) show(detail.target);
});

on("click", "dialog [data-close]", (_, button) => button.closest("dialog").close());
document.addEventListener("close-dialog", ({ target }) => {
  // A dialog that is a page of its own, as in a new tab, leads to where what was asked for is seen.
  const back = target.closest?.("#dialog, .dialog-page") && document.querySelector(".dialog-page a.page-only");
  shared()?.closest("dialog").close();
  if (back) location.assign(back.href);
});
document.addEventListener("close", ({ target }) => {
  if (!target.contains(shared())) return;
  shared().replaceChildren();
  target.removeAttribute("aria-labelledby");
  target.setAttribute("aria-label", "Dialog");
}, { capture: true });
