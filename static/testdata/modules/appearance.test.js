import { $, is, page, press, test } from "./harness.js";
import { toggleDock } from "js/appearance.js";

const root = document.documentElement;
const show = () => page(`<button data-set-theme="system"></button><button data-set-theme="dark"></button><button data-set-theme="light"></button><button data-toggle-dock></button>`);
const pressed = () => $('[aria-pressed="true"]').dataset.setTheme;
const dock = () => $("[data-toggle-dock]").getAttribute("aria-expanded");

/** Runs theme.js again, as the next page does. */
const reload = async () => {
  delete root.dataset.theme;
  delete root.dataset.dock;
  await new Promise((done) => {
    const script = document.createElement("script");
    script.src = import.meta.resolve("js/theme.js");
    script.onload = done;
    document.head.append(script);
  });
  show();
};

test("a chosen theme is stored, the system's theme is not", async () => {
  show();
  is(pressed(), "system");
  $("[data-set-theme=dark]").click();
  is([root.dataset.theme, pressed()], ["dark", "dark"]);
  await reload();
  is(pressed(), "dark");
  $("[data-set-theme=system]").click();
  is([root.dataset.theme ?? "", localStorage.getItem("quantix.theme")], ["", null]);
  await reload();
  is(pressed(), "system");
});

test("a theme chosen in another tab is applied", () => {
  show();
  localStorage.setItem("quantix.theme", "light");
  dispatchEvent(new StorageEvent("storage", { key: "quantix.theme" }));
  is(pressed(), "light");
  localStorage.removeItem("quantix.theme");
  dispatchEvent(new StorageEvent("storage", { key: "quantix.theme" }));
  is(pressed(), "system");
});

test("the dock starts open on a wide screen and closed on a narrow one, and keeps the user's choice", async () => {
  const width = (wide) => Object.defineProperty(window, "innerWidth", { value: wide ? 1200 : 400, configurable: true });
  width(true);
  await reload();
  is(dock(), "true");
  $("[data-toggle-dock]").click();
  is(dock(), "false");
  await reload();
  is(dock(), "false");
  width(false);
  await reload();
  is(dock(), "false");
  toggleDock();
  is([dock(), localStorage.getItem("quantix.dock")], ["true", "closed"]);
  await reload();
  is(dock(), "false", "the next page's:");
});

test("the dock starts small and keeps the height that the user set", async () => {
  Object.defineProperty(window, "innerWidth", { value: 1200, configurable: true });
  const dock = (px) => {
    page(`<div data-dock-grip tabindex="0"></div><div class="dock-body"></div>`);
    $(".dock-body").style.height = px;
  };
  dock("94px");
  press($("[data-dock-grip]"), "ArrowUp");
  is([root.style.getPropertyValue("--dock-body"), localStorage.getItem("quantix.dock-height"), $("[data-dock-grip]").getAttribute("aria-valuenow")], ["126px", "126", "126"]);
  root.style.removeProperty("--dock-body");
  await reload();
  is(root.style.getPropertyValue("--dock-body"), "126px");
  dock("64px");
  press($("[data-dock-grip]"), "ArrowDown");
  is(root.style.getPropertyValue("--dock-body"), "62px", "the least:");
});
