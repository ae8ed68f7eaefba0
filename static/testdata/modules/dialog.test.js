import { $, heard, is, page, test } from "./harness.js";
import "js/dialog.js";

const ADDRESS = "/test/fragment.html";

async function opened(more = "") {
  page(`<a id="open" href="${ADDRESS}" data-dialog>Delete</a><dialog aria-label="Dialog"><div id="dialog"></div></dialog>${more}`);
  const here = heard("htmx:afterSettle");
  $("#open").click();
  await here;
  return $("dialog");
}

test("an address is shown in the shared dialog with its title", async () => {
  const dialog = await opened();
  is([dialog.open, dialog.matches(":modal"), dialog.getAttribute("aria-labelledby"), dialog.hasAttribute("aria-label")], [true, true, "dialog-title", false]);
});

test("the first field has the focus, not the close button", async () => {
  page(`<button id="open" data-dialog="#own">Keys</button><dialog id="own"><button data-close>×</button><div class="pad"><input type="radio" name="a"><input type="radio" name="a" checked id="is"><input></div></dialog>
    <dialog><div id="dialog"></div></dialog>`);
  $("#open").click();
  is(document.activeElement.id, "is");
  $("#own").close();
});

test("the close button and the server's event close and empty the dialog", async () => {
  let dialog = await opened();
  for (const close of [() => $("[data-close]").click(), () => document.body.dispatchEvent(new CustomEvent("close-dialog", { bubbles: true }))]) {
    const gone = new Promise((done) => { dialog.addEventListener("close", done, { once: true }); });
    close();
    await gone;
    is([dialog.open, $("#dialog").childElementCount], [false, 0]);
    dialog = await opened();
  }
});

test("a dialog element of the page opens unchanged", () => {
  page(`<button data-dialog="#own">Keys</button><dialog id="own"><p>Text</p></dialog><dialog><div id="dialog"></div></dialog>`);
  $("button").click();
  is([$("#own").open, $("#dialog").parentElement.open], [true, false]);
});

test("a click that opens a new tab is left to the browser", () => {
  page(`<a href="#there" data-dialog>Delete</a><dialog><div id="dialog"></div></dialog>`);
  for (const how of [{ ctrlKey: true }, { metaKey: true }, { shiftKey: true }, { button: 1 }]) {
    let taken = true;
    document.addEventListener("click", (event) => { taken = event.defaultPrevented; event.preventDefault(); }, { once: true });
    $("a").dispatchEvent(new MouseEvent("click", { bubbles: true, cancelable: true, ...how }));
    is(taken, false, JSON.stringify(how));
  }
});
