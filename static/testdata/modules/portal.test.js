import { $, is, page, takeClock, takeServer, test } from "./harness.js";

const pass = takeClock(), asked = takeServer();
const { streamLive, streamLost, whenUp } = await import("js/portal.js");

const frame = `<main id="main"><p class="x"><span class="chip ok"><svg class="i"><use href="/i.svg#circle-play"></use></svg> Running</span> <b data-state>3 running</b></p>
  <a id="away" href="#there" hidden></a><form id="f" action="/vms"><button>Find</button></form></main><div id="toasts"></div>`;
const bar = () => $("#page-bar")?.textContent ?? "";

/** Lets time pass while the portal does not answer. */
async function unanswered(ms) {
  for (let left = ms; left > 0; left -= 500) {
    await pass(Math.min(left, 500));
    for (const request of asked.splice(0)) request.fail();
    await pass(0);
  }
}

test("an unreachable portal is shown within 5 s, states are unknown after 30 s and restored afterwards", async () => {
  page(frame);
  streamLost();
  await unanswered(4_900);
  is([bar().includes("does not answer"), $(".chip").textContent.trim()], [true, "Running"]);
  await unanswered(24_000);
  is($(".chip").textContent.trim(), "Running", "after 29 s:");
  await unanswered(2_000);
  is([$(".chip").className, $(".chip").textContent.trim(), $(".chip").title, $(".chip use").getAttribute("href"), $("[data-state]").textContent, document.documentElement.dataset.portal],
    ["chip unknown", "Unknown", "Last known: Running", "/i.svg#circle-question-mark", "Unknown", "silent"]);
  let back = 0;
  document.addEventListener("quantix:back", () => back++, { once: true });
  await pass(2_000);
  await asked.at(-1).answer(200, "ok");
  is([$(".chip").className, $(".chip").textContent.trim(), $("[data-state]").textContent, document.documentElement.dataset.portal, back, bar().includes("does not answer")],
    ["chip ok", "Running", "3 running", undefined, 1, false]);
  streamLive();
  is(bar(), "");
});

test("a request meanwhile waits, is sent automatically, and can be cancelled", async () => {
  page(frame);
  const done = [];
  streamLost();
  for (const [word, cancel] of [["Shut down", false], ["Delete", true]]) {
    whenUp(word, () => done.push(word));
    await unanswered(500);
    is([bar().includes(`“${word}” goes on by itself`), $(".toast").textContent.includes("does not answer"), done.includes(word)], [true, true, false]);
    if (cancel) $("#page-bar button").click();
    await unanswered(1_500);
    await pass(2_000);
    await asked.at(-1).answer(200, "ok");
    is(done.includes(word), !cancel, word);
  }
  whenUp("Start", () => done.push("Start")); // the stream is lost, but the portal answers
  await asked.at(-1).answer(200, "ok");
  streamLive();
  await whenUp("Stop", () => done.push("Stop"));
  is(done, ["Shut down", "Start", "Stop"]);
});

test("links and forms do not leave the page while the portal is unreachable", async () => {
  page(frame);
  streamLost();
  await unanswered(4_000);
  const link = document.createElement("a");
  link.href = "/vms";
  link.textContent = "VMs";
  $("main").append(link);
  is(link.dispatchEvent(new MouseEvent("click", { bubbles: true, cancelable: true })), false, "the browser follows the link");
  await unanswered(500);
  is(bar().includes("“VMs” goes on by itself"), true);
  $("#f").requestSubmit($("#f button"));
  await unanswered(500);
  is(bar().includes("“Find” goes on by itself"), true);
  $("#page-bar button").click();
  await pass(2_000);
  await asked.at(-1).answer(200, "ok");
  streamLive();
});
