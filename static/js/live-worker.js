// The shared worker: one event stream for all tabs. Over plain HTTP a browser opens only six connections per host, and
// each stream occupies one. A shared worker needs no secure context and is not throttled as hidden tabs are.
import { Stream } from "./stream.js";

const ROLL_CALL = 60_000; // ms between pings; a tab without an answer counts as closed, as browsers send no event
const MEMORY = 300_000; // ms for which events are stored for tabs that are still loading

const tabs = new Map(); // port -> {keys: Set, answered: boolean}, the most recently active tab last
const pokedAt = new Map(); // key, or "" for all -> time of the last event, ms
let state = "";
let pace = 1; // seconds between two events of a list

const stream = new Stream(
  (keys) => {
    for (const key of keys ?? [""]) pokedAt.set(key, Date.now());
    for (const [port, tab] of tabs) {
      if (keys === null || keys.some((key) => tab.keys.has(key))) port.postMessage({ poke: keys });
    }
  },
  (now, quiet) => {
    state = now;
    for (const port of tabs.keys()) port.postMessage({ state, quiet });
  },
  (seconds) => {
    if (pace === seconds) return;
    pace = seconds;
    for (const port of tabs.keys()) port.postMessage({ pace });
  },
);

const follow = () => stream.follow([...tabs.values()].reverse().flatMap((tab) => [...tab.keys]));

self.onconnect = ({ ports: [port] }) => {
  port.onmessage = ({ data }) => {
    if (data.here) {
      const tab = tabs.get(port);
      if (tab) tab.answered = true;
      return;
    }
    if (data.retry) return stream.retry();
    tabs.delete(port);
    if (data.keys) {
      tabs.set(port, { keys: new Set(data.keys), answered: true });
      catchUp(port, data);
      if (state === "live" || state === "lost") port.postMessage({ state, quiet: stream.quiet() });
      port.postMessage({ pace });
    }
    follow();
  };
};

// Sends a new tab the events since its content was rendered, age ms ago. Keys that the stream does not cover yet are
// skipped, because the stream sends an event for each key that it begins to cover.
function catchUp(port, { keys, age }) {
  const since = Date.now() - age;
  const missed = (key) => stream.covers(key) && Math.max(pokedAt.get(key) ?? 0, pokedAt.get("") ?? 0) >= since;
  const poke = keys.filter(missed);
  if (poke.length > 0) port.postMessage({ poke });
}

setInterval(() => {
  for (const [key, at] of pokedAt) {
    if (at < Date.now() - MEMORY) pokedAt.delete(key);
  }
  for (const [port, tab] of tabs) {
    if (!tab.answered) tabs.delete(port);
    tab.answered = false;
    port.postMessage({ rollCall: true });
  }
  follow();
}, ROLL_CALL);
