import { is, takeClock, takeServer, test } from "./harness.js";

const pass = takeClock(), asked = takeServer();
await import("js/live-worker.js");

let all = [];
function tab(...keys) {
  const port = { got: [], postMessage: (message) => port.got.push(message) };
  self.onconnect({ ports: [port] });
  port.say = (data) => port.onmessage({ data });
  port.take = () => port.got.splice(0);
  all.push(port);
  if (keys.length > 0) port.say({ keys, age: 0 });
  return port;
}

/** Connects tabs with these keys to the worker, whose stream then covers the keys. */
async function tabs(...each) {
  for (const old of all) old.say({ bye: true });
  all = [];
  await pass(300);
  const out = each.map((keys) => tab(...keys));
  await pass(300);
  asked.at(-1).accept();
  await pass(0);
  for (const one of out) one.take();
  return out;
}

const say = async (text) => {
  asked.at(-1).say(text);
  await pass(0);
};

test("all tabs share one stream, and each gets events of its keys", async () => {
  const before = asked.length;
  const [a, b] = await tabs(["vm:1", "host:1"], ["vm:2", "host:1"]);
  is(asked.slice(before).map((each) => each.url), ["/events?key=vm:2&key=host:1&key=vm:1"]);
  await say("event: vm:1\n\n");
  is([a.take(), b.take()], [[{ poke: ["vm:1"] }], []]);
  await say("event: host:1\n\n");
  is([a.take(), b.take()], [[{ poke: ["host:1"] }], [{ poke: ["host:1"] }]]);
  await say("event: resync\n\n");
  is([a.take(), b.take()], [[{ poke: null }], [{ poke: null }]]);
});

test("a loading tab gets the events since its content was rendered", async () => {
  await tabs(["vm:1", "vm:2"]);
  await pass(1_000);
  await say("event: vm:1\n\n");
  await pass(2_000);
  const late = (age) => {
    const one = tab();
    one.say({ keys: ["vm:1", "vm:2"], age });
    return one.take().filter((message) => "poke" in message);
  };
  is([late(1_999), late(2_000)], [[], [{ poke: ["vm:1"] }]]);
  for (const one of all) one.say({ bye: true });
  is(late(2_000), [], "before the stream, which will poke it, is open:");
});

test("a new tab gets the state of the stream", async () => {
  await tabs(["vm:1"]);
  is(tab("vm:1").take().filter(({ state }) => state), [{ state: "live", quiet: 0 }]);
  asked.at(-1).end();
  await pass(0);
  is(tab("vm:1").take().filter(({ state }) => state), [{ state: "lost", quiet: 0 }]);
});

test("a tab's keys are followed until the tab closes or stops answering pings", async () => {
  const [stays, leaves, dies] = await tabs(["vm:1"], ["vm:2"], ["vm:3"]);
  leaves.say({ bye: true });
  for (let seconds = 0; seconds < 180; seconds += 5) {
    await pass(5_000);
    if (stays.take().some(({ rollCall }) => rollCall)) stays.say({ here: true });
    await say(": ping\n\n");
  }
  dies.take();
  await say("event: vm:3\n\n");
  is(dies.take(), [], "to a tab that is gone");
  await say("event: vm:1\n\n");
  is(stays.take(), [{ poke: ["vm:1"] }]);
  stays.say({ keys: ["vm:1", "vm:4"], age: 0 });
  await pass(300);
  is(asked.at(-1).url, "/events?key=vm:1&key=vm:4");
});
