// The user's theme and dock settings. theme.js applies them before the first paint.
import { on, onContent } from "./dom.js";
import { recall, remember } from "./store.js";

const root = document.documentElement;

function showChoice() {
  const theme = root.dataset.theme ?? "system";
  for (const button of document.querySelectorAll("[data-set-theme]")) {
    button.setAttribute("aria-pressed", String(button.dataset.setTheme === theme));
  }
  for (const button of document.querySelectorAll("[data-toggle-dock]")) {
    button.setAttribute("aria-expanded", String(dockIsOpen()));
  }
}

on("click", "[data-set-theme]", (_, button) => {
  const theme = button.dataset.setTheme;
  if (theme === "system") delete root.dataset.theme;
  else root.dataset.theme = theme;
  remember("theme", theme === "system" ? null : theme);
  showChoice();
});

// On a narrow screen the task dock is a sheet and starts closed; on other screens it starts open.
const dockIsOpen = () => innerWidth > 900 ? root.dataset.dock !== "closed" : root.dataset.dock === "open";

export function toggleDock() {
  const next = dockIsOpen() ? "closed" : "open";
  root.dataset.dock = next;
  if (innerWidth > 900) remember("dock", next);
  showChoice();
}

on("click", "[data-toggle-dock]", toggleDock);

const LEAST = 62, STEP = 32, HEAD = 33; // px
const height = () => document.querySelector(".dock-body").getBoundingClientRect().height;

/** Sets the height of the dock's list in px, within limits, and stores it for other pages. */
function setHeight(wanted) {
  const px = Math.round(Math.max(LEAST, Math.min(wanted, innerHeight * 0.6)));
  root.style.setProperty("--dock-body", `${px}px`);
  document.querySelector("[data-dock-grip]").setAttribute("aria-valuenow", String(px));
  remember("dock-height", String(px));
}

on("pointerdown", "[data-dock-grip]", (event, grip) => {
  event.preventDefault();
  grip.setPointerCapture(event.pointerId);
  const move = ({ clientY }) => setHeight(innerHeight - clientY - HEAD);
  grip.addEventListener("pointermove", move);
  grip.addEventListener("lostpointercapture", () => grip.removeEventListener("pointermove", move), { once: true });
});
on("keydown", "[data-dock-grip]", (event) => {
  const by = { ArrowUp: STEP, ArrowDown: -STEP }[event.key];
  if (!by) return;
  event.preventDefault();
  setHeight(height() + by);
});
onContent(showChoice);
addEventListener("resize", showChoice);
addEventListener("storage", ({ key }) => {
  if (key !== "quantix.theme") return;
  const theme = recall("theme");
  if (theme) root.dataset.theme = theme;
  else delete root.dataset.theme;
  showChoice();
});
