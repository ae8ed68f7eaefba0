// Live pages: tells the stream which keys this page shows, and pokes the elements that show a changed one.
// A poke carries no data: the element's own hx-get fetches the truth.
import { onContent } from "./dom.js";
import { showBar, showGone, hideBar } from "./bar.js";
import { streamLive, streamLost } from "./portal.js";
import { Stream } from "./stream.js";

const MIN_GAP = 250; // ms between two refreshes of one element
const LATER_AGE = 20_000; // ms; what htmx brings later is no older than its longest request

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

// At once where the last refresh is long ago, else when the gap is over, which is an element's own where what it shows changes
// less often: the last poke is never lost.
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

// Lists follow each second; where many people watch them the server takes longer, and the page says so.
function paced(seconds) {
  const word = document.getElementById("pace");
  if (!word) return;
  word.hidden = !(seconds > 1);
  word.textContent = `live, every ${seconds} s`;
}

// How old, at most, what the page shows can be when it first asks for its keys, ms.
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
  if (!event.persisted) return; // back from the browser's page cache: all of it is old
  followed = "";
  follow();
  poked(null);
});

// How a refresh of a live element went, shown on the element instead of as a toast.
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

// The head of what is gone shows no state of it any more, and offers nothing.
function headGone(head) {
  showGone(head.dataset.gone, head.dataset.goneHref);
  const [chip, ...others] = head.querySelectorAll(".title .chip");
  for (const other of [...others, ...head.querySelectorAll(".title .actions")]) other.remove();
  if (!chip) return;
  chip.className = "chip unknown";
  chip.textContent = "Deleted";
}
