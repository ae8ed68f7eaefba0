import { $, $$, heard, is, page, takeClock, test } from "./harness.js";

const pass = takeClock();
const { sentence, toast } = await import("js/toast.js");

const show = (html = "") => page(`<div id="toasts"></div><main id="main">${html}</main>`);
const seen = () => $$(".toast").map((item) => item.querySelector("p").textContent);
const tell = (place, type, detail) => $(place).dispatchEvent(new CustomEvent(type, { bubbles: true, detail }));

test("success toasts disappear, error toasts stay until closed", async () => {
  show();
  for (const kind of ["ok", "info", "warn", "bad"]) toast(kind, kind);
  toast("bad", "");
  await pass(5_999);
  is(seen(), ["ok", "info", "warn", "bad"]);
  await pass(1);
  is(seen(), ["warn", "bad"]);
  $(".bad [data-close-toast]").click();
  is(seen(), ["warn"]);
});

test("at most four toasts are shown, the newest on top, above an open dialog", () => {
  show();
  for (let i = 0; i < 6; i++) toast("bad", String(i));
  is(seen(), ["2", "3", "4", "5"]);
  const raised = [];
  $("#toasts").addEventListener("beforetoggle", ({ newState }) => raised.push(newState));
  toast("strange", "6");
  is([raised, $$(".toast").at(-1).className], [["closed", "open"], "toast info"]);
});

// Returns the element that a click in the middle of an element would hit. Elements that a dialog makes inert are not hit.
function met(element) {
  const { left, top, width, height } = element.getBoundingClientRect();
  return document.elementFromPoint(left + width / 2, top + height / 2);
}

test("an open dialog contains all toasts and returns them when it closes", async () => {
  show("<dialog><p>Sure?</p></dialog>");
  toast("bad", "before");
  const dialog = $("dialog"), tray = $("#toasts");
  dialog.showModal();
  await heard("toggle", dialog);
  is([tray.parentElement === dialog, tray.matches(":popover-open")], [true, true]);
  toast("bad", "within");
  is(seen(), ["before", "within"]);
  for (const close of $$("[data-close-toast]")) is(met(close) === close, true, "the pointer meets the button");
  met($("[data-close-toast]")).click();
  is([seen(), dialog.open], [["within"], true]);
  dialog.close();
  await heard("close", dialog);
  is([tray.parentElement === document.body, tray.matches(":popover-open"), seen()], [true, true, ["within"]]);
});

test("a toast's text is inserted after its live region", async () => {
  show("<dialog></dialog>");
  $("dialog").showModal();
  toast("bad", "early"); // before the dialog's toggle event
  is([$("#toasts").parentElement === $("dialog"), seen()], [true, []]);
  await pass(100);
  is(seen(), ["early"]);
  $("dialog").close();
  toast("ok", "Deleted.");
  is([$("#toasts").parentElement === document.body, seen()], [true, ["early"]]);
  await pass(100);
  is(seen(), ["early", "Deleted."]);
  await pass(6_000);
  is(seen(), ["early"]);
});

test("toasts survive a dialog that is removed when it closes", async () => {
  show("<dialog></dialog>");
  const dialog = $("dialog");
  dialog.showModal();
  toast("bad", "Not typed.");
  dialog.addEventListener("close", () => dialog.remove());
  dialog.close();
  await heard("close", dialog);
  await pass(100);
  is(seen(), ["Not typed."]);
});

test("a refusal shows the header's sentence, the problem's detail, or a general sentence", () => {
  is(sentence(409, "The%20VM%20is%20%E2%80%9Eoff%E2%80%9C.", ""), "The VM is „off“.");
  is(sentence(409, "100 %", ""), "100 %");
  is([sentence(409, null, `{"detail": "d", "title": "t"}`), sentence(409, null, `{"title": "t"}`)], ["d", "t"]);
  is([sentence(404, null, "<html>"), sentence(500, null, "").includes("500")], ["This no longer exists, or you may not see it. Reload the page.", true]);
});

test("failed requests of the user show a toast, automatic requests do not", () => {
  show(`<form></form><div data-live="vm:1"></div>`);
  const xhr = { status: 409, getResponseHeader: () => "No.", responseText: "" };
  for (const place of ["form", "[data-live]"]) {
    tell(place, "htmx:responseError", { xhr });
    tell(place, "htmx:sendError", {});
    tell(place, "htmx:timeout", {});
  }
  is(seen().map((words) => words.split(".")[0]), ["No", "The portal does not answer", "The portal did not answer in time"]);
  tell("form", "toast", { kind: "ok", text: "Saved." });
  is(seen().at(-1), "Saved.");
});

test("an ended session is shown by the bar", () => {
  show(`<div data-live="vm:1"></div>`);
  tell("[data-live]", "htmx:responseError", { xhr: { status: 401 } });
  is([seen(), $("#page-bar a").textContent], [[], "Sign in again"]);
});
