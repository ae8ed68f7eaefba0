// Ignores clicks on disabled actions and prevents double submission.
const SENDING = "sending";

document.addEventListener("click", (event) => {
  if (!(event.target instanceof Element) || !event.target.closest('[aria-disabled="true"]')) return;
  event.preventDefault();
  event.stopImmediatePropagation();
}, { capture: true });

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.matches(".htmx-request") || SENDING in form.dataset) {
    event.preventDefault();
    event.stopImmediatePropagation();
  } else if (form.method === "post" && !form.matches("[hx-post], [hx-delete], [hx-patch], [hx-put]")) {
    form.dataset[SENDING] = "";
  }
}, { capture: true });

addEventListener("pageshow", () => {
  for (const form of document.querySelectorAll(`form[data-${SENDING}]`)) delete form.dataset[SENDING];
});
