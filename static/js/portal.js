// Whether the portal answers. Where it does not, the page says so within seconds, draws each state as unknown once nothing was heard
// for 30 s, and holds what its user asks for until the portal is back.
import { hideBar, showBar, showDown } from "./bar.js";
import { on } from "./dom.js";
import { toast } from "./toast.js";
import { drawKnown, drawUnknown } from "./unknown.js";

const PATIENCE = 2_000; // ms from a lost stream to the question whether the portal answers
const AGAIN = 2_000; // ms between two questions
const ANSWER = 2_500; // ms that an answer may take
const UNKNOWN_AFTER = 30_000; // ms without a word, as for a host

let lost = false; // the stream
let down = false;
let heard = performance.now(); // when the portal was heard last, while it is lost or down
let held = null; // {word, go, valid}: what goes on once the portal is back
let question = 0, silence = 0; // timers

/** The stream is lost, after a silence of so many ms. */
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

/** Does go() now, or once the portal answers again; says what waits, by the word of what was pressed. */
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

// What a search box or a live part of the page asks for by itself is not worth waiting for.
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
