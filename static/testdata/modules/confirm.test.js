import { $, heard, is, page, settle, test } from "./harness.js";
import "js/dialog.js";
import "js/confirm.js";

test("a destructive request is sent only after confirmation in a dialog", async () => {
  page(`<form hx-post="/vms/1/actions" hx-confirm="Force off web? What it has not written is lost." hx-swap="none"><input type="hidden" name="action" value="stop"><button>Force off</button></form><dialog><div id="dialog"></div></dialog>`);
  htmx.process(document.body);
  window.confirm = () => { throw new Error("the browser asks"); };
  const sent = [];
  document.addEventListener("htmx:configRequest", (event) => { event.preventDefault(); sent.push(event.detail.path); });
  const asked = () => $("dialog:has(#confirm-title)");
  $("form button").click();
  await settle();
  is([asked().matches(":modal"), $("#confirm-title").textContent, asked().querySelector("p").textContent, document.activeElement.textContent, sent.length],
    [true, "Force off web?", "What it has not written is lost.", "Force off", 0]);
  let gone = heard("close", asked());
  asked().querySelector("[data-close]").click();
  await gone;
  is([asked(), sent.length], [null, 0], "cancelled:");
  $("form button").click();
  await settle();
  is(document.activeElement.className, "btn danger");
  gone = heard("close", asked());
  document.activeElement.click();
  await gone;
  is([asked(), sent], [null, ["/vms/1/actions"]], "confirmed:");
});

test("the confirming button of an action that loses no data has the primary tone", async () => {
  page(`<form hx-post="/vms/1/actions" hx-confirm="Shut down web? The guest shuts down." data-tone="primary" hx-swap="none"><button>Shut down</button></form>`);
  htmx.process(document.body);
  $("form button").click();
  await settle();
  is([document.activeElement.className, document.activeElement.textContent], ["btn primary", "Shut down"]);
  $("dialog [data-close]").click();
});
