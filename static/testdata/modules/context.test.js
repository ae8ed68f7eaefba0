import { $, heard, is, page, press, test } from "./harness.js";
import "js/context.js";

await new Promise((done) => {
  const style = Object.assign(document.createElement("link"), { rel: "stylesheet", href: new URL("../app.css", import.meta.resolve("js/dom.js")), onload: done });
  document.head.append(style); // removes the default centering of popovers
});

const menu = () => $("#context-menu");
const ask = (element, more) => !element.dispatchEvent(new MouseEvent("contextmenu", { bubbles: true, cancelable: true, button: 2, clientX: 40, clientY: 30, ...more }));

async function opened() {
  page(`<table><tr data-menu="/test/fragment.html"><td>web <input><input type="checkbox" id="box"><button data-menu-open>…</button></td></tr></table>`);
  menu()?.remove();
  const shown = new Promise((done) => { document.addEventListener("toggle", ({ newState }) => { if (newState === "open") done(); }, { capture: true, once: true }); });
  return { shown, row: $("td") };
}

// The module reuses one list while the page is open, so these tests share it.
test("the menu opens at the pointer with the focus on its first item", async () => {
  const { row, shown } = await opened();
  is(ask(row), true);
  await heard("htmx:afterSettle");
  await shown;
  const box = menu().getBoundingClientRect();
  is([menu().matches(":popover-open"), box.left, box.top, document.activeElement.textContent], [true, 40, 34, "Delete"]);
  press(document.activeElement, "ArrowDown");
  is(document.activeElement.textContent, "Cancel");
  document.activeElement.click();
  is(menu().matches(":popover-open"), false);
});

test("fields and Shift keep the browser's context menu", async () => {
  const row = $("td");
  is([ask($("input")), ask(row, { shiftKey: true }), ask($("#box"))], [false, false, true]);
  await heard("htmx:afterSettle");
});
