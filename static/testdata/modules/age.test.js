import { $, is, page, takeClock, test } from "./harness.js";

const pass = takeClock();
const AHEAD = 5_000; // ms by which the server's clock is ahead of the browser's
document.documentElement.dataset.now = new Date(Date.now() + AHEAD).toISOString();
await import("js/age.js");

const ago = (seconds) => new Date(Date.now() + AHEAD - seconds * 1000).toISOString();
const age = (seconds, more = "") => `<time class="age" datetime="${ago(seconds)}" ${more}></time>`;
const shows = (seconds, more) => { page(age(seconds, more)); return $("time").textContent; };
const answered = (date) => document.body.dispatchEvent(new CustomEvent("htmx:afterRequest", { bubbles: true, detail: { xhr: { getResponseHeader: () => date } } }));

test("ages use the server's clock and count up", async () => {
  is([0, 9, 10, 59, 60, 3_599, 3_600, 86_399, 86_400, 200_000].map((seconds) => shows(seconds)),
    ["just now", "just now", "10 s ago", "59 s ago", "1 min ago", "59 min ago", "1 h ago", "23 h ago", "1 d ago", "2 d ago"]);
  is([shows(-30), shows(5, `data-format="short"`), shows(90, `data-format="short"`)], ["just now", "5 s", "1 min"]);
  page(age(8));
  await pass(3_000);
  is($("time").textContent, "11 s ago");
});

test("an age beyond its limit is marked as old", async () => {
  page(age(29, `data-fresh="30" data-stale-label="Unknown"`));
  is([$("time").textContent, $("time").className], ["29 s ago", "age"]);
  await pass(2_000);
  is([$("time").textContent, $("time").className], ["Unknown · last seen 31 s ago", "age stale"]);
});

test("clock drift is corrected, the rounding of a response's date is not", async () => {
  page(age(10));
  answered(new Date(Date.now() + AHEAD - 1_900).toUTCString());
  await pass(1_000);
  is($("time").textContent, "11 s ago");
  answered(null);
  answered(new Date(Date.now() + AHEAD + 60_000).toUTCString());
  await pass(1_000);
  is($("time").textContent, "1 min ago");
});

test("times are shown in the user's time zone", () => {
  const at = new Date("2026-03-04T05:06:07Z");
  const local = (format) => { page(`<time class="local" datetime="${at.toISOString()}" data-format="${format}">raw</time>`); return $("time").textContent; };
  is([local("date"), local("time"), local("")], [at.toLocaleDateString(undefined, { dateStyle: "medium" }),
    at.toLocaleTimeString(undefined, { timeStyle: "medium" }), at.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" })]);
  page(`<time class="local" datetime="never">raw</time><time class="age" datetime="">old</time>`);
  is(document.body.textContent, "rawold");
});
