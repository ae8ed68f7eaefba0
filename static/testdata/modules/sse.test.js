import { is, takeServer, settle, test } from "./harness.js";
import { events, Refused } from "js/sse.js";

const asked = takeServer();

async function reading() {
  const got = [];
  const done = (async () => { for await (const sign of events("/events", undefined)) got.push(sign === "open" ? "open" : sign.event ?? "."); })();
  await settle();
  return { got, done, stream: asked.at(-1) };
}

test("events are parsed at any chunk boundaries", async () => {
  const { got, done, stream } = await reading();
  stream.accept();
  for (const piece of [": ping\n\nev", "ent: vm:1\r", "\n\r\nevent:vm:2\n", "\n", "data: x\n\n"]) { stream.say(piece); await settle(); }
  stream.end();
  await done;
  is(got.filter((sign) => sign !== "."), ["open", "vm:1", "vm:2"]);
  is(got.filter((sign) => sign === ".").length, 5, "signs of life");
});

test("data of one event does not carry over to the next", async () => {
  const got = [];
  const done = (async () => { for await (const sign of events("/events", undefined)) if (sign.event) got.push([sign.event, sign.data]); })();
  await settle();
  const stream = asked.at(-1);
  stream.accept();
  stream.say("data: nobody's\n\nevent: a\n\nevent: pace\ndata: 4\n\nevent: b\ndata:\n\n");
  await settle();
  stream.end();
  await done;
  is(got, [["a", ""], ["pace", "4"], ["b", ""]]);
});

test("a refusal has the response's status", async () => {
  const { done, stream } = await reading();
  stream.accept(429);
  const why = await done.catch((error) => error);
  is([why instanceof Refused, why.status], [true, 429]);
});
