// Live pages: sends the stream the keys that this page shows, and refreshes the elements of a changed key. An event
// carries no data: the element's own hx-get fetches the current state.
import { onContent } from "./dom.js";
import { showBar, showGone, hideBar } from "./bar.js";
import { streamLive, streamLost } from "./portal.js";
import { Stream } from "./stream.js";

const MIN_GAP = 250; // ms between two refreshes of one element
const LATER_AGE = 20_000; // ms; content that htmx loads later is no older than its longest request

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

// Refreshes at once if the last refresh is long ago, otherwise after the gap, so that the last event is never lost. An
// element may set a longer gap.
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

// Lists refresh every second; under load the server uses a longer interval, which the page shows.
function paced(seconds) {
  const word = document.getElementById("pace");
  if (!word) return;
  word.hidden = !(seconds > 1);
  word.textContent = `live, every ${seconds} s`;
}

// Maximum age of the page's content when it first subscribes to its keys, in ms.
let contentAge = () => {
  contentAge = () => LATER_AGE;
  return performance.now();
};

/** The stream shared by all tabs of this user: {follow(keys), leave()}. */
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

/** A stream of this tab alone, closed while the tab is hidden. */
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
  if (!event.persisted) return; // restored from the browser's page cache: all content is outdated
  followed = "";
  follow();
  poked(null);
});

// Errors of a live refresh are shown on the element instead of as a toast.
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

// The head of a deleted object shows no state and no actions.
function headGone(head) {
  showGone(head.dataset.gone, head.dataset.goneHref);
  const [chip, ...others] = head.querySelectorAll(".title .chip");
  for (const other of [...others, ...head.querySelectorAll(".title .actions")]) other.remove();
  if (!chip) return;
  chip.className = "chip unknown";
  chip.textContent = "Deleted";
}
