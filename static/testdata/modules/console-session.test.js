import { $, is, page, takeClock, takeServer, test } from "./harness.js";
import { takeSockets } from "./vnc.js";

const pass = takeClock(), asked = takeServer(), sockets = takeSockets();
console.error = console.warn = () => {}; // noVNC logs the errors that the tests cause
const { Session } = await import("js/console-session.js");

const TICKET = `{"url": "/console/7", "protocol": "qx.secret"}`;

async function started() {
  page(`<div id="screen"></div>`);
  asked.length = sockets.length = 0;
  const states = [];
  const session = new Session($("#screen"), "/vms/1/console", (state, words) => states.push([state, words]));
  session.start();
  await pass(0);
  return { session, states, last: () => states.at(-1), states_: () => states.map(([state]) => state).join(" ") };
}

async function granted() {
  const all = await started();
  await asked[0].answer(200, TICKET);
  return all;
}

test("a session connects with a ticket", async () => {
  const { session, last, states_ } = await granted();
  is([sockets[0].url.endsWith("/console/7"), sockets[0].protocols], [true, ["binary", "qx.secret"]]);
  sockets[0].show();
  await pass(0);
  is([states_(), last()[1], session.rfb !== null], ["connecting connected", "Connected.", true]);
  await pass(60_000);
  is([states_(), sockets.length], ["connecting connected", 1], "a minute later");
  session.stop();
  is([last(), session.rfb], [["idle", "Not connected."], null]);
  await pass(60_000);
  is([states_(), asked.length], ["connecting connected idle", 1], "after it was stopped");
});

test("a lost connection is retried with a new ticket after a growing delay", async () => {
  const { session, last } = await granted();
  sockets[0].show();
  await pass(1_000);
  sockets[0].end();
  await pass(0);
  is(last(), ["disconnected", "Disconnected: The console was closed. Next try in 1 s."]);
  for (const [tries, wait] of [[1, 1], [2, 2], [3, 4], [4, 8], [5, 16]]) {
    await pass(wait * 1000 - 1);
    is(asked.length, tries, "tickets before the wait is over");
    await pass(1);
    is([asked.length, last()], [tries + 1, ["connecting", `Connecting, try ${tries} of 5…`]]);
    await asked.at(-1).answer(503, `{"detail": "The host is offline."}`);
  }
  is(last(), ["failed", "The host is offline. 5 new tries did not help. Press Reconnect."]);
  await pass(600_000);
  is(asked.length, 6, "tickets in the end");
  session.start();
  await pass(0);
  is(last(), ["connecting", "Connecting…"], "when its user asks");
  session.stop();
});

test("a steady connection resets the number of attempts", async () => {
  const { session, last } = await granted();
  for (const [stood, wait] of [[1_000, 1], [10_000, 2], [10_001, 1]]) {
    sockets.at(-1).show();
    await pass(stood);
    sockets.at(-1).end();
    await pass(0);
    is(last()[1].endsWith(`Next try in ${wait} s.`), true, `${last()[1]} after ${stood} ms:`);
    await pass(wait * 1000);
    await asked.at(-1).answer(200, TICKET);
  }
  session.stop();
});

test("the attempt fails when the host does not connect in time", async () => {
  const { session, last } = await granted();
  sockets[0].open();
  await pass(14_999);
  is(last()[0], "connecting");
  await pass(1);
  is([last()[0], last()[1].includes("The host did not open the console in time.")], ["disconnected", true]);
  session.stop();
});

test("a refusal is not retried", async () => {
  for (const [answer, want] of [
    [() => asked[0].answer(409, `{"detail": "The VM is off."}`), ["refused", "The VM is off."]],
    [() => asked[0].answer(401, ""), ["refused", "You are signed out. Sign in again."]],
    [async () => { await asked[0].answer(200, TICKET); sockets[0].open(); sockets[0].secure(2); sockets[0].say(Array(16).fill(1)); },
      ["failed", "The VM's display asks for a password, which the portal does not have."]],
    [async () => { await asked[0].answer(200, TICKET); sockets[0].show(); await pass(0); sockets[0].end(1008, "ann ended this console session."); },
      ["failed", "ann ended this console session."]],
    [async () => { await asked[0].answer(200, TICKET); sockets[0].refuse("no"); }, ["failed", "The VM's display refused: no."]],
  ]) {
    const { last } = await started();
    await answer();
    await pass(60_000);
    is([last(), asked.length], [want, 1]);
  }
});

test("events of an earlier connection are ignored", async () => {
  const { session, states_ } = await started();
  session.start();
  await pass(0);
  await asked[0].answer(200, TICKET);
  is(sockets.length, 0, "sockets for the older ticket");
  await asked[1].answer(200, TICKET);
  sockets[0].show();
  await pass(0);
  is(states_(), "connecting connecting connected");
  const old = sockets[0];
  session.start();
  old.end();
  await pass(0);
  is(states_(), "connecting connecting connected connecting");
  session.stop();
});
