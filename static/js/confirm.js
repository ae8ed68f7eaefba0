// Shows the confirmation before a request ([hx-confirm]) as a dialog of the page. The dialog's button has the text of the
// clicked button, and the tone that the element's data-tone names: "danger" by default.
import { button, tag } from "./dom.js";
import { whenUp } from "./portal.js";

document.addEventListener("htmx:confirm", (event) => {
  const { question, elt, issueRequest } = event.detail;
  if (!question) return;
  event.preventDefault();
  const word = (elt.matches("form") ? elt.querySelector("button:not([type=button])") : elt).textContent.trim();
  ask(question, word, elt.dataset.tone ?? "danger", () => whenUp(word, () => issueRequest(true), () => elt.isConnected));
});

function ask(question, word, tone, go) {
  const end = question.indexOf("?") + 1;
  const dialog = tag("dialog", "dialog"), form = tag("form"), header = tag("header"), footer = tag("footer"), title = tag("h2");
  title.id = "confirm-title";
  title.textContent = question.slice(0, end) || question;
  dialog.setAttribute("aria-labelledby", title.id);
  form.method = "dialog";
  header.append(title);
  form.append(header);
  const rest = end ? question.slice(end).trim() : "";
  if (rest) {
    const body = tag("div", "pad"), words = tag("p");
    words.textContent = rest;
    body.append(words);
    form.append(body);
  }
  const cancel = button("btn", "Cancel"), act = button(`btn ${tone}`, word);
  cancel.dataset.close = "";
  act.type = "submit";
  act.autofocus = true;
  footer.append(cancel, act);
  form.append(footer);
  form.addEventListener("submit", go);
  dialog.addEventListener("close", () => dialog.remove());
  dialog.append(form);
  document.body.append(dialog);
  dialog.showModal();
}
