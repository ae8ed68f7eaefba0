import { $, $$, heard, is, page, settle, test } from "./harness.js";
import "js/copy.js";

let copied = [], refuses = false;
Object.defineProperty(navigator, "clipboard", { value: { writeText: async (text) => { if (refuses) throw new Error("no"); copied.push(text); } } });
const show = (html) => { copied = []; page(`<div id="toasts"></div>${html}`); };
const told = () => $$(".toast").map((item) => item.classList[1]);

test("a button copies its own text, a field's value or an element's text", async () => {
  show(`<button data-copy data-copy-text=" https://x "></button><input id="v" value="value"><button data-copy="#v"></button><pre id="p">\ntext\n</pre><button data-copy="#p"></button>`);
  for (const button of $$("[data-copy]")) button.click();
  await settle();
  is([copied, told()], [["https://x", "value", "text"], ["ok", "ok", "ok"]]);
});

test("a failed copy shows a toast", async () => {
  show(`<button data-copy data-copy-text="x"></button>`);
  refuses = true;
  $("button").click();
  await settle();
  is([copied, told()], [[], ["bad"]]);
});

test("without navigator.clipboard text is copied by a temporary field, in dialogs too", async () => {
  Object.defineProperty(window, "isSecureContext", { value: false });
  document.execCommand = () => { copied.push([document.activeElement.value, document.activeElement.parentElement.tagName]); return true; };
  show(`<dialog><button data-copy data-copy-text="secret"></button></dialog>`);
  $("dialog").showModal();
  await heard("toggle", $("dialog"));
  $("button").click();
  await settle();
  is([copied, told(), $$("textarea").length, document.activeElement.tagName], [[["secret", "DIALOG"]], ["ok"], 0, "BUTTON"]);
});
