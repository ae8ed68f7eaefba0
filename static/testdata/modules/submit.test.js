import { $, is, page, test } from "./harness.js";
import "js/submit.js";

let sent = [];
document.addEventListener("submit", (event) => {
  if (!event.defaultPrevented) sent.push(event.target.id);
  event.preventDefault();
});
document.addEventListener("click", (event) => { if (event.target.closest("a")) sent.push("followed"); event.preventDefault(); });
const show = (html) => { sent = []; page(html); };
const submit = (form, submitter) => form.dispatchEvent(new SubmitEvent("submit", { bubbles: true, cancelable: true, submitter }));

test("disabled actions do nothing", () => {
  show(`<a href="#x" aria-disabled="true"><i>Start</i></a><a id="on" href="#x" aria-disabled="false">Stop</a>`);
  $("i").click();
  is(sent, []);
  $("#on").click();
  is(sent, ["followed"]);
});

test("a form is sent only once until the page is shown again", () => {
  show(`<form id="f" method="post"></form><form id="h" method="post" hx-post="/x"></form><form id="g"></form>`);
  for (const id of ["f", "f", "h", "h", "g", "g"]) submit($(`#${id}`));
  is(sent, ["f", "h", "h", "g", "g"]);
  dispatchEvent(new PageTransitionEvent("pageshow"));
  submit($("#f"));
  $("#h").classList.add("htmx-request");
  submit($("#h"));
  is(sent, ["f", "h", "h", "g", "g", "f"]);
});
