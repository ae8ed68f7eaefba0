import { $, $$, is, page, takeClock, test } from "./harness.js";

const pass = takeClock();
const { sentence, toast } = await import("js/toast.js");

const show = (html = "") => page(`<div id="toasts"></div><main id="main">${html}</main>`);
const seen = () => $$(".toast").map((item) => item.querySelector("p").textContent);
const tell = (place, type, detail) => $(place).dispatchEvent(new CustomEvent(type, { bubbles: true, detail }));

test("good news leaves, bad news waits to be closed", async () => {
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

test("there are at most four, and each is shown last, above an open dialog", () => {
  show();
  for (let i = 0; i < 6; i++) toast("bad", String(i));
  is(seen(), ["2", "3", "4", "5"]);
  const raised = [];
  $("#toasts").addEventListener("beforetoggle", ({ newState }) => raised.push(newState));
  toast("strange", "6");
  is([raised, $$(".toast").at(-1).className], [["closed", "open"], "toast info"]);
});

test("a refusal is the server's sentence, its problem's, or a general one", () => {
  is(sentence(409, "The%20VM%20is%20%E2%80%9Eoff%E2%80%9C.", ""), "The VM is „off“.");
  is(sentence(409, "100 %", ""), "100 %");
  is([sentence(409, null, `{"detail": "d", "title": "t"}`), sentence(409, null, `{"title": "t"}`)], ["d", "t"]);
  is([sentence(404, null, "<html>"), sentence(500, null, "").includes("500")], ["This no longer exists, or you may not see it. Reload the page.", true]);
});

test("what a person asked for and did not get is told, what the page asks by itself is not", () => {
  show(`<form></form><div data-live="vm:1"></div>`);
  const xhr = { status: 409, getResponseHeader: () => "No.", responseText: "" };
  for (const place of ["form", "[data-live]"]) {
    tell(place, "htmx:responseError", { xhr });
    tell(place, "htmx:sendError", {});
    tell(place, "htmx:timeout", {});
  }
  is(seen().map((words) => words.split(".")[0]), ["No", "The portal cannot be reached", "The portal did not answer in time"]);
  tell("form", "toast", { kind: "ok", text: "Saved." });
  is(seen().at(-1), "Saved.");
});

test("who is signed out is told by the bar", () => {
  show(`<div data-live="vm:1"></div>`);
  tell("[data-live]", "htmx:responseError", { xhr: { status: 401 } });
  is([seen(), $("#page-bar a").textContent], [[], "Sign in again"]);
});
