// Live pages: subscribes the event stream to the keys that the page shows, and refreshes the elements of a changed key.
// An event carries no data: the element's hx-get fetches the current state.
import { onContent } from "./dom.js";
import { showBar, showGone, hideBar } from "./bar.js";
import { streamLive, streamLost } from "./portal.js";
import { Stream } from "./stream.js";

const MIN_GAP = 250; // ms between two refreshes of one element
const LATER_AGE = 20_000; // ms; the maximum age of content from htmx: the timeout of its requests

const shown = () => [...document.querySelectorAll("[data-live]")]
  .filter((element) => !element.matches(".gone") && !element.closest('[aria-expanded="false"]'));
const keysOf = (element) => element.dataset.live.split(/\s+/).filter(Boolean);

function poked(keys) {
  const changed = keys && new Set(keys);
  for (const element of shown()) {
    if (!changed || keysOf(element).some((key) => changed.has(key))) refresh(element);
  }
}

const refreshes = new WeakMap(); // element -> {last, timer}

// Refreshes the element, but at least one gap after its previous refresh. Events in between share the next refresh, so no
// change is missed. An element may set a longer gap.
function refresh(element) {
  const gap = Math.max(MIN_GAP, 1000 * Number(element.dataset.gap ?? 0));
  const turn = refreshes.get(element) ?? { last: -gap, timer: 0 };
  refreshes.set(element, turn);
  if (turn.timer) return;
  turn.timer = setTimeout(() => {
    turn.timer = 0;
    turn.last = performance.now();
    element.dispatchEvent(new CustomEvent("poke"));
  }, Math.max(0, turn.last + gap - performance.now()));
}

function reported(state, quiet) {
  if (state === "signed-out") return showBar("signed-out");
  if (state !== "live") return streamLost(quiet);
  hideBar("signed-out");
  streamLive();
}

// Shows the refresh interval of lists if it is longer than the usual second, because the server is under load.
function paced(seconds) {
  const word = document.getElementById("pace");
  if (!word) return;
  word.hidden = !(seconds > 1);
  word.textContent = `live, every ${seconds} s`;
}

// Returns the maximum age in ms of the content whose keys the page is about to subscribe to: at first the time since the
// page was loaded.
let contentAge = () => {
  contentAge = () => LATER_AGE;
  return performance.now();
};

/** Returns the stream that all tabs of the browser share, as {follow(keys), leave()}. */
function sharedStream() {
  const user = document.documentElement.dataset.user ?? "";
  const worker = new SharedWorker(new URL("./live-worker.js", import.meta.url), { type: "module", name: `quantix ${user}` });
  worker.port.onmessage = ({ data }) => {
    if (data.rollCall) worker.port.postMessage({ here: true });
    else if (data.state) reported(data.state, data.quiet);
    else if (data.pace) paced(data.pace);
    else poked(data.poke);
  };
  return {
    follow: (keys) => worker.port.postMessage({ keys, age: contentAge() }),
    retry: () => worker.port.postMessage({ retry: true }),
    leave: () => worker.port.postMessage({ bye: true }),
  };
}

/** Returns a stream for this tab only, which is closed while the tab is hidden. */
function ownStream() {
  const stream = new Stream(poked, reported, paced);
  let wanted = [];
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) stream.stop();
    else stream.follow(wanted);
  });
  return {
    follow: (keys) => {
      wanted = keys;
      if (!document.hidden) stream.follow(keys);
    },
    retry: () => stream.retry(),
    leave: () => stream.stop(),
  };
}

const source = typeof SharedWorker === "function" ? sharedStream() : ownStream();
let followed = "";

function follow() {
  const keys = [...new Set(shown().flatMap(keysOf))];
  if (keys.join(" ") === followed) return;
  followed = keys.join(" ");
  source.follow(keys);
}

onContent(follow);
document.addEventListener("quantix:tree", follow);
addEventListener("pagehide", () => source.leave());
document.addEventListener("quantix:back", () => {
  source.retry();
  poked(null);
});
addEventListener("pageshow", (event) => {
  if (!event.persisted) return; // the browser restored the page from its back/forward cache, so all content is outdated
  followed = "";
  follow();
  poked(null);
});

// An error of a live refresh is shown on the element, not as a toast.
document.addEventListener("htmx:beforeRequest", (event) => {
  if (event.target.matches("[data-live].gone")) event.preventDefault();
});
document.addEventListener("htmx:afterRequest", ({ target, detail }) => {
  if (!target.matches("[data-live]")) return;
  const status = detail.xhr?.status ?? 0;
  target.classList.toggle("gone", status === 404);
  target.classList.toggle("late", !detail.successful && status !== 404);
  if (status !== 404) return;
  for (const state of target.querySelectorAll("[data-state]:not(#console)")) state.textContent = "Deleted";
  if (target.dataset.gone) headGone(target);
  follow();
});

// Removes the state and the actions from the head of a deleted object.
function headGone(head) {
  showGone(head.dataset.gone, head.dataset.goneHref);
  const [chip, ...others] = head.querySelectorAll(".title .chip");
  for (const other of [...others, ...head.querySelectorAll(".title .actions")]) other.remove();
  if (!chip) return;
  chip.className = "chip unknown";
  chip.textContent = "Deleted";
}
