// The shared worker: one event stream for all tabs. Over plain HTTP a browser opens only six connections per host, and
// a stream occupies one. A worker also needs no secure context and is not throttled like a hidden tab.
import { Stream } from "./stream.js";

const ROLL_CALL = 60_000; // ms; a tab that did not answer the last ping is closed (browsers send no event for that)
const MEMORY = 300_000; // ms for which events are kept for tabs that still load

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

// A tab's content may be older than its first message here: it gets the events since then. Keys that no stream covers
// yet are skipped: they get an event when a stream does.
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
