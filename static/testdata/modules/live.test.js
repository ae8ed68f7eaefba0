import { $, is, page, takeClock, takeServer, test } from "./harness.js";

const pass = takeClock(), asked = takeServer();
delete window.SharedWorker; // use the stream of the tab, because the test's clock does not control a worker
await import("js/live.js");

const poked = {};
document.addEventListener("poke", ({ target }) => { poked[target.id] = (poked[target.id] ?? 0) + 1; }, { capture: true });
const count = (id) => poked[id] ?? 0;

async function shows(html) {
  page(html);
  await pass(300);
  asked.at(-1).accept();
  await pass(300);
  for (const id in poked) delete poked[id];
  return asked.at(-1);
}

const say = async (stream, ...keys) => {
  stream.say(keys.map((key) => `event: ${key}\n\n`).join(""));
  await pass(0);
};

test("an event refreshes only the elements with its key", async () => {
  const stream = await shows(`<div id="a" data-live="vm:1 host:1"></div><div id="b" data-live="vm:2"></div>`);
  is(stream.url, "/events?key=vm:1&key=host:1&key=vm:2");
  await say(stream, "host:1");
  is([count("a"), count("b")], [1, 0]);
  await pass(1000);
  await say(stream, "resync");
  is([count("a"), count("b")], [2, 1]);
});

test("many events cause two refreshes: one at once and one after the gap", async () => {
  const stream = await shows(`<div id="c" data-live="vm:3"></div>`);
  await pass(1000);
  await say(stream, "vm:3", "vm:3");
  await say(stream, "vm:3");
  is(count("c"), 1);
  await pass(249);
  is(count("c"), 1, "within the gap");
  await pass(1);
  is(count("c"), 2);
  await pass(5000);
  is(count("c"), 2, "in the end");
});

test("an element with a longer gap is refreshed less often", async () => {
  const stream = await shows(`<div id="slow" data-live="vm:31" data-gap="5"></div>`);
  await pass(5000);
  await say(stream, "vm:31");
  await say(stream, "vm:31");
  is(count("slow"), 1);
  await pass(4999);
  is(count("slow"), 1, "within its gap");
  await pass(1);
  is(count("slow"), 2);
});

test("the page shows the refresh interval of lists if it is longer than a second", async () => {
  const stream = await shows(`<div data-live="vms"></div><span id="pace" hidden></span>`);
  const says = async (seconds) => {
    stream.say(`event: pace\ndata: ${seconds}\n\n`);
    await pass(0);
    return $("#pace").hidden ? "" : $("#pace").textContent;
  };
  is([await says(1), await says(4), await says(15), await says(1)], ["", "live, every 4 s", "live, every 15 s", ""]);
});

test("a closed level of the tree is followed only after it is opened", async () => {
  await shows(`<div id="d" data-live="vm:4"></div><ul><li id="item" aria-expanded="false"><div id="e" data-live="vm:5"></div></li></ul>`);
  is(asked.at(-1).url.includes("vm:5"), false);
  $("#item").setAttribute("aria-expanded", "true");
  document.dispatchEvent(new CustomEvent("quantix:tree"));
  await pass(300);
  is(asked.at(-1).url, "/events?key=vm:4&key=vm:5");
});

test("a lost stream is shown after a delay, and the page is refreshed once the portal is back", async () => {
  const stream = await shows(`<main id="main"><div id="g" data-live="vm:7"></div></main>`);
  stream.end();
  await pass(1900);
  is($("#page-bar"), null);
  await pass(100);
  const health = () => asked.findLast(({ url }) => url === "/healthz");
  health().fail();
  await pass(0);
  is([$("#page-bar").textContent.includes("does not answer"), count("g")], [true, 0]);
  await pass(2000);
  await health().answer(200, "ok");
  await pass(300);
  is([$("#page-bar").textContent.includes("interrupted"), count("g")], [true, 1]);
  asked.findLast(({ url }) => url !== "/healthz").accept();
  await pass(300);
  is($("#page-bar"), null);
});

test("a deleted object is marked, announced, and no longer requested", async () => {
  const stream = await shows(`<main id="main"><div id="f" data-live="vm:6" data-gone="The VM was deleted." data-gone-href="/vms">
    <div class="title"><span class="chip ok">Running</span><b data-state>Running</b><div class="actions"></div></div></div></main>`);
  const answer = (status) => $("#f").dispatchEvent(new CustomEvent("htmx:afterRequest", {
    bubbles: true, detail: { successful: status < 400, xhr: { status } } }));
  answer(503);
  is([...$("#f").classList], ["late"]);
  answer(404);
  is([...$("#f").classList], ["gone"]);
  is($("#page-bar").textContent, "The VM was deleted. Show the list");
  is([$("#f .chip").textContent, $("#f b").textContent, $("#f .actions")], ["Deleted", "Deleted", null], "its states:");
  const ask = new CustomEvent("htmx:beforeRequest", { bubbles: true, cancelable: true });
  is($("#f").dispatchEvent(ask), false, "a further request");
  is(stream.aborted, true, "the stream, of which nothing else is followed, has ended:");
});
