// The reader's choices of theme and dock. theme.js applies them before the first paint.
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

// On a narrow screen the dock is a sheet and starts closed; else it starts open.
const dockIsOpen = () => innerWidth > 900 ? root.dataset.dock !== "closed" : root.dataset.dock === "open";

export function toggleDock() {
  const next = dockIsOpen() ? "closed" : "open";
  root.dataset.dock = next;
  if (innerWidth > 900) remember("dock", next);
  showChoice();
}

on("click", "[data-toggle-dock]", toggleDock);
onContent(showChoice);
addEventListener("resize", showChoice);
addEventListener("storage", ({ key }) => {
  if (key !== "quantix.theme") return;
  const theme = recall("theme");
  if (theme) root.dataset.theme = theme;
  else delete root.dataset.theme;
  showChoice();
});
