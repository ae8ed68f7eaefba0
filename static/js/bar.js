// The bar above a page for states of the whole page. Only the most severe active state is shown: signed out, object gone,
// portal down, stream lost.
import { button, tag } from "./dom.js";

const words = {
  "signed-out": ["You are signed out. ", "Sign in again", () => `/sign-in?next=${encodeURIComponent(location.pathname + location.search)}`],
  gone: [], // filled by showGone
  down: [], // set by showDown
  lost: ["Live updates are interrupted; trying again. What you see may be old. ", "Reload", () => location.href],
};
const active = new Set();

/** Shows the bar for "signed-out" or "lost". */
export function showBar(kind) {
  active.add(kind);
  draw();
}

/** Shows that the page's object no longer exists, with a link to the list at href. */
export function showGone(sentence, href) {
  words.gone = [`${sentence} `, "Show the list", () => href];
  showBar("gone");
}

/**
 * Shows that the portal does not answer. waits: label of the request that is sent once the portal answers, which the
 * button cancels by cancel(); null: no such request.
 */
export function showDown(waits, cancel) {
  const sentence = "The portal does not answer; trying again. What you see may be old. ";
  if (waits === null) words.down = [sentence];
  else words.down = [`${sentence}${waits ? `“${waits}”` : "What you asked for"} goes on by itself. `, "Cancel", cancel];
  showBar("down");
}

export function hideBar(kind) {
  if (active.delete(kind)) draw();
}

function draw() {
  const shown = document.getElementById("page-bar");
  const kind = Object.keys(words).find((name) => active.has(name));
  const [sentence, act, does] = words[kind] ?? [];
  if (kind && shown?.textContent === sentence + (act ?? "")) return; // an unchanged bar must not be announced again
  shown?.remove();
  if (!kind) return;
  const bar = tag("div", "bar-note");
  bar.id = "page-bar";
  bar.setAttribute("role", "status");
  (document.getElementById("main") ?? document.body).prepend(bar);
  bar.append(sentence); // after insertion into the page, so that screen readers announce it
  if (kind === "down" && act) {
    const cancel = button("btn small", act);
    cancel.addEventListener("click", does);
    bar.append(cancel);
  } else if (act) {
    const link = tag("a");
    link.href = does();
    link.textContent = act;
    bar.append(link);
  }
}
