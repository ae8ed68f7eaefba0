// Dialogs. <a href="/vms/ID/delete" data-dialog> shows that address in the shared dialog; without scripts it is a page.
// The content has a separate element inside the dialog, because toasts are placed beside the content.
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

// The first field gets the focus. In a dialog without fields the button gets the focus, so that Enter activates it.
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
  // A dialog opened as a separate page, as in a new tab, redirects to the page that shows the result.
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
