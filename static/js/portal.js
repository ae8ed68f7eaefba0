// Detects whether the portal responds. If not, the page shows that within seconds, shows each state as unknown after
// 30 s, and holds the user's last request until the portal responds again.
import { hideBar, showBar, showDown } from "./bar.js";
import { on } from "./dom.js";
import { toast } from "./toast.js";
import { drawKnown, drawUnknown } from "./unknown.js";

const PATIENCE = 2_000; // ms from a lost stream to the first probe of the portal
const AGAIN = 2_000; // ms between two probes
const ANSWER = 2_500; // timeout of a probe, ms
const UNKNOWN_AFTER = 30_000; // ms without a response, the same limit as for an offline host

let lost = false; // whether the stream is lost
let down = false;
let heard = performance.now(); // time of the portal's last response, while it is lost or down
let held = null; // {word, go, valid}: the request to send once the portal is back
let question = 0, silence = 0; // timers

/** Called when the event stream is lost, quiet ms after the portal's last response. */
export function streamLost(quiet = 0) {
  if (lost) return;
  lost = true;
  if (!down) heard = performance.now() - quiet;
  if (!down) ask(Math.max(0, PATIENCE - quiet));
}

export function streamLive() {
  lost = false;
  clearTimeout(question);
  hideBar("lost");
  answered();
}

/**
 * Calls go() now, or once the portal answers again. Until then a toast shows that the request waits; word is the text of
 * the pressed button.
 */
export async function whenUp(word, go, valid = () => true) {
  if (!lost && !down) return go();
  if (await answers()) {
    answered();
    return go();
  }
  held = { word, go, valid };
  fallen();
  toast("warn", `The portal does not answer. ${word ? `“${word}”` : "What you asked for"} goes on by itself when it does.`);
}

async function answers() {
  try {
    return (await fetch("/healthz", { cache: "no-store", signal: AbortSignal.timeout(ANSWER) })).ok;
  } catch {
    return false;
  }
}

function ask(wait) {
  clearTimeout(question);
  question = setTimeout(async () => {
    if (await answers()) {
      answered();
      if (lost) showBar("lost");
    } else if (lost || down) {
      fallen();
    }
    if (lost || down) ask(down ? AGAIN : 5 * AGAIN);
  }, wait);
}

function fallen() {
  hideBar("lost");
  if (!down) {
    down = true;
    silence = setTimeout(drawUnknown, Math.max(0, heard + UNKNOWN_AFTER - performance.now()));
    ask(AGAIN);
  }
  showDown(held && held.word, () => {
    held = null;
    fallen();
  });
}

function answered() {
  heard = performance.now();
  if (!down) return;
  down = false;
  clearTimeout(silence);
  hideBar("down");
  drawKnown();
  document.dispatchEvent(new CustomEvent("quantix:back"));
  const next = held;
  held = null;
  if (next?.valid()) next.go();
}

const wordOf = (element) => element?.textContent.trim().replace(/\s+/g, " ").slice(0, 60) ?? "";
const here = (element) => () => element.isConnected && element.closest("dialog")?.open !== false;

function hold(event, word, go, element) {
  event.preventDefault();
  event.stopImmediatePropagation();
  whenUp(word, go, here(element));
}

on("click", "a[href]", (event, link) => {
  const elsewhere = event.defaultPrevented || event.button !== 0 || event.ctrlKey || event.metaKey || event.shiftKey || link.target || link.origin !== location.origin;
  if (!(lost || down) || elsewhere || link.matches("[data-dialog], [hx-get], [href^='#'], [aria-disabled=true]")) return;
  hold(event, wordOf(link), () => { location.assign(link.href); }, link);
}, { capture: true });

document.addEventListener("submit", (event) => {
  const { target: form, submitter } = event;
  if (!(lost || down) || form.method === "dialog" || form.matches("[hx-post], [hx-get]") || submitter?.matches("[hx-post]")) return;
  hold(event, wordOf(submitter), () => form.requestSubmit(submitter), form);
}, { capture: true });

// Automatic requests, as of search boxes and live elements, are not held.
document.addEventListener("htmx:confirm", (event) => {
  const { elt, verb, question: asks, triggeringEvent, issueRequest } = event.detail;
  if (!(lost || down) || asks || event.defaultPrevented || elt.matches("[data-live], input, select, textarea") || verb === "get" && !elt.matches("a, button, #dialog")) return;
  event.preventDefault();
  whenUp(wordOf(triggeringEvent?.submitter ?? (elt.matches("a, button") ? elt : null)), () => issueRequest(true), here(elt));
});

const unanswered = ({ detail: { xhr } }) => !xhr || xhr.status === 0 || xhr.status >= 502 && xhr.status <= 504;
document.addEventListener("htmx:afterRequest", (event) => {
  if (!unanswered(event)) heard = performance.now();
  else if (!down) ask(0);
});
