// Toasts: short results of the user's actions. Success messages disappear after a while, errors stay until closed.
import { on } from "./dom.js";
import { showBar } from "./bar.js";

const MOST = 4, STAY = 6_000;
const NOTICED = 100; // ms until a screen reader has noticed a new live region
const kinds = ["ok", "warn", "bad", "info"];

/** Shows a sentence as a toast. kind is ok, warn, bad or info. */
export function toast(kind, text) {
  const tray = document.getElementById("toasts");
  if (!tray || !text) return;
  const item = document.createElement("div");
  item.className = `toast ${kinds.includes(kind) ? kind : "info"}`;
  const words = document.createElement("p");
  words.textContent = text;
  const close = document.createElement("button");
  close.type = "button";
  close.className = "icon-btn";
  close.dataset.closeToast = "";
  close.setAttribute("aria-label", "Close this message");
  close.textContent = "×";
  item.append(words, close);
  const say = () => {
    tray.append(item);
    while (tray.childElementCount > MOST) tray.firstElementChild.remove();
    if (kind === "ok" || kind === "info") setTimeout(() => item.remove(), STAY);
  };
  if (raise(tray)) setTimeout(say, NOTICED);
  else say();
}

// A modal dialog makes everything outside inert for the pointer and for screen readers. So the tray of toasts moves into
// the open dialog, where a popover shown last is on top. Returns whether the tray moved: a screen reader does not announce
// a live region that is inserted together with its text.
function raise(tray) {
  const place = [...document.querySelectorAll("dialog:modal")].at(-1) ?? document.body;
  const moved = tray.parentElement !== place;
  if (moved) place.append(tray);
  if (tray.showPopover) {
    tray.popover = "manual";
    if (tray.matches(":popover-open")) tray.hidePopover();
    tray.showPopover();
  }
  return moved;
}

for (const type of ["toggle", "close"]) {
  document.addEventListener(type, ({ target }) => {
    const tray = document.getElementById("toasts");
    if (tray && target.localName === "dialog") raise(tray);
  }, { capture: true });
}

/** Returns the sentence about a refused request: the header's, else the problem's detail, else a general sentence. */
export function sentence(status, header, body) {
  if (header) {
    try { return decodeURIComponent(header); } catch { return header; }
  }
  try {
    const problem = JSON.parse(body);
    if (problem.detail || problem.title) return problem.detail || problem.title;
  } catch { /* the body is not problem+json */ }
  if (status === 404) return "This no longer exists, or you may not see it. Reload the page.";
  if (status === 429) return "Too many requests. Wait a moment and try again.";
  return `The portal could not do this (status ${status}). Try again; if it stays, ask an administrator.`;
}

on("click", "[data-close-toast]", (_, button) => button.closest(".toast").remove());
document.addEventListener("toast", ({ detail }) => toast(detail.kind, detail.text));

const isBackground = (element) => element.matches("[data-live]");

document.addEventListener("htmx:responseError", ({ target, detail: { xhr } }) => {
  if (xhr.status === 401) showBar("signed-out");
  if (isBackground(target)) return;
  // an open dialog covers the bar, so a toast shows it
  if (xhr.status === 401) toast("bad", "You are signed out, so nothing was done. Sign in again in another tab; what you typed here stays.");
  else toast("bad", sentence(xhr.status, xhr.getResponseHeader("X-Quantix-Message"), xhr.responseText));
});
document.addEventListener("htmx:sendError", ({ target }) => {
  if (!isBackground(target)) toast("bad", "The portal does not answer. Look at the tasks before you try again.");
});
document.addEventListener("htmx:timeout", ({ target }) => {
  if (!isBackground(target)) toast("bad", "The portal did not answer in time. Look at the tasks before you try again.");
});
