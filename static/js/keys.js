// Keyboard shortcuts: / ? [ and "g" followed by a letter. Users can disable them in the list that "?" shows.
import { toggleDock } from "./appearance.js";
import { isTyping, on, onContent } from "./dom.js";
import { whenUp } from "./portal.js";
import { recall, remember } from "./store.js";

const places = { d: "/", h: "/hosts", v: "/vms", s: "/pools", n: "/networks", t: "/tasks" };
const CHORD = 1_200; // ms between "g" and the letter

const isOn = () => recall("keys") !== "off";
let goneAt = -CHORD;

function go(letter) {
  const link = document.querySelector(`[data-key-go="${CSS.escape(letter)}"]`);
  const target = link?.href ?? places[letter];
  if (target) whenUp("", () => location.assign(target));
  return Boolean(target);
}

const actions = {
  "/": () => document.getElementById("search")?.focus(),
  "?": () => document.getElementById("shortcuts")?.showModal(),
  "[": toggleDock,
  g: () => { goneAt = performance.now(); },
};

/** Ctrl+K or ⌘K focuses the search, also from a field, but not from a dialog or the console's screen. */
function search(event) {
  const asked = event.key?.toLowerCase() === "k" && (event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey;
  const box = asked && !event.target.closest?.("#console") && !document.querySelector("dialog[open]") && document.getElementById("search");
  if (!box) return false;
  event.preventDefault();
  box.focus();
  box.select();
  return true;
}

document.addEventListener("keydown", (event) => {
  if (search(event)) return;
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || !isOn()) return;
  if (isTyping(event.target) || document.querySelector("dialog[open]")) return;
  const chord = performance.now() - goneAt < CHORD;
  goneAt = -CHORD;
  if (chord && go(event.key)) return event.preventDefault();
  if (!Object.hasOwn(actions, event.key)) return;
  event.preventDefault();
  actions[event.key]();
});

on("change", "[data-toggle-keys]", (_, box) => remember("keys", box.checked ? null : "off"));
onContent(() => {
  for (const box of document.querySelectorAll("[data-toggle-keys]")) box.checked = isOn();
});
