// Copies text to the clipboard, also over plain HTTP, where browsers have no navigator.clipboard.
import { on } from "./dom.js";
import { toast } from "./toast.js";

async function copy(text, near) {
  if (window.isSecureContext && navigator.clipboard) return navigator.clipboard.writeText(text);
  const field = document.createElement("textarea");
  field.value = text;
  field.className = "vh";
  field.setAttribute("aria-hidden", "true");
  (near.closest("dialog") ?? document.body).append(field); // a modal dialog makes elements outside unselectable
  field.select();
  const copied = document.execCommand("copy");
  field.remove();
  near.focus();
  if (!copied) throw new Error("the browser refused");
}

on("click", "[data-copy]", async (event, button) => {
  event.preventDefault();
  const source = button.dataset.copy ? document.querySelector(button.dataset.copy) : null;
  const text = button.dataset.copyText ?? source?.value ?? source?.textContent ?? "";
  try {
    await copy(text.trim(), button);
    toast("ok", "Copied.");
  } catch {
    toast("bad", "The browser does not allow copying here. Select the text and copy it by keyboard.");
  }
});
