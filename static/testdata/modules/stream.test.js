import { is, takeClock, takeServer, test } from "./harness.js";
import { Stream } from "js/stream.js";

const pass = takeClock(), asked = takeServer();
Math.random = () => 1; // the maximum random delay

async function following(keys) {
  const pokes = [], states = [];
  asked.length = 0;
  const stream = new Stream((poked) => pokes.push(poked), (state) => states.push(state));
  stream.follow(keys);
  await pass(300);
  return { stream, pokes, states };
}

test("new keys count as changed, then each event reports its key", async () => {
  const { stream, pokes, states } = await following(["vm:1", "vm:2", "vm:1"]);
  is(asked.map((each) => each.url), ["/events?key=vm:1&key=vm:2"]);
  asked[0].accept();
  await pass(0);
  asked[0].say("event: vm:2\n\nevent: resync\n\n");
  await pass(0);
  is(pokes, [["vm:1", "vm:2"], ["vm:2"], null]);
  is(states, ["live"]);
  is([stream.covers("vm:1"), stream.covers("vm:3")], [true, false]);
  stream.stop();
});

test("a pace event reports no key", async () => {
  const paces = [], pokes = [];
  asked.length = 0;
  const stream = new Stream((poked) => pokes.push(poked), () => {}, (seconds) => paces.push(seconds));
  stream.follow(["vms"]);
  await pass(300);
  asked[0].accept();
  asked[0].say("event: pace\ndata: 1\n\n");
  await pass(0);
  asked[0].say("event: vms\ndata:\n\nevent: pace\ndata: 4\n\n");
  await pass(0);
  is(paces, [1, 4]);
  is(pokes, [["vms"], ["vms"]]);
  stream.stop();
});

test("the old stream stays open until the new one is accepted", async () => {
  const { stream, pokes } = await following(["vm:1"]);
  asked[0].accept();
  await pass(0);
  stream.follow(["vm:1", "vm:2"]);
  await pass(300);
  is(asked.map((each) => each.aborted), [false, false]);
  asked[0].say("event: vm:1\n\n");
  await pass(0);
  asked[1].accept();
  await pass(0);
  is(asked.map((each) => each.aborted), [true, false]);
  is(pokes, [["vm:1"], ["vm:1"], ["vm:2"]]);
  stream.follow(["vm:2"]); // already covered
  await pass(300);
  is(asked.length, 2, "streams");
  stream.stop();
});

test("a lost stream is retried after growing delays", async () => {
  const { stream, states } = await following(["vm:1"]);
  asked[0].accept();
  await pass(0);
  asked[0].end();
  await pass(0);
  is(states, ["live", "lost"]);
  for (const [tries, pause] of [[2, 1000], [3, 2000], [4, 4000]]) {
    await pass(pause - 1);
    is(asked.length, tries - 1, "streams before the pause is over");
    await pass(1);
    is(asked.length, tries, "streams");
    asked.at(-1).accept(503);
    await pass(0);
  }
  stream.stop();
  await pass(60_000);
  is(asked.length, 4, "streams after the stop");
});

test("a stream without data for 12 s is closed", async () => {
  const { stream, states } = await following(["vm:1"]);
  asked[0].accept();
  await pass(11_000);
  asked[0].say(": ping\n\n");
  await pass(11_000);
  is(states, ["live"]);
  await pass(1_000);
  is([asked[0].aborted, states], [true, ["live", "lost"]]);
  stream.stop();
});

test("an ended session is reported once and not retried", async () => {
  const { states } = await following(["vm:1"]);
  asked[0].accept(401);
  await pass(120_000);
  is([states, asked.length], [["signed-out"], 1]);
});

test("an address has at most 170 keys", async () => {
  const { stream } = await following(Array.from({ length: 300 }, (_, i) => `vm:${i}`));
  is(new URL(asked[0].url, location.href).searchParams.getAll("key").length, 170);
  stream.stop();
});
