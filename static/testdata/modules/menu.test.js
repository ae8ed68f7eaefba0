import { $, is, page, press, settle, test } from "./harness.js";
import { place } from "js/menu.js";

const show = () => page(`<details class="menu" id="a"><summary>A</summary><div class="menu-list"><a class="menu-item" href="#1">One</a><a class="menu-item" href="#2">Two</a>
  <button class="menu-item" type="button" aria-disabled="true">Off</button></div></details>
  <details class="menu" id="b"><summary>B</summary><div class="menu-list"><input><a class="menu-item" href="#3">Three</a></div></details><button id="away">Away</button>`);
const open = async (id) => { $(`#${id}`).open = true; await settle(); };
const now = () => ["a", "b"].filter((id) => $(`#${id}`).open).join();

test("only one menu is open, and a click elsewhere closes it", async () => {
  show();
  await open("a");
  await open("b");
  is(now(), "b");
  $("#away").click();
  is(now(), "");
  await open("a");
  $("#away").focus();
  is(now(), "");
});

test("a chosen item closes the menu, a disabled item does not", async () => {
  show();
  await open("a");
  $("#a button").click();
  is(now(), "a");
  $("#a a").click();
  is(now(), "");
});

test("keys open, navigate and close the menu, and the focus returns to its button", async () => {
  show();
  const summary = $("#a summary");
  summary.focus();
  is(press(summary, "ArrowDown"), true);
  await new Promise(requestAnimationFrame);
  is(document.activeElement.textContent, "One");
  for (const [key, want] of [["ArrowDown", "Two"], ["ArrowUp", "One"], ["ArrowUp", "Off"], ["Home", "One"], ["End", "Off"]]) {
    press(document.activeElement, key);
    is(document.activeElement.textContent, want, key);
  }
  is(press(document.activeElement, "Escape"), true);
  is([now(), document.activeElement.textContent], ["", "A"]);
});

test("Home and End keep their function in a field", async () => {
  show();
  await open("b");
  const field = $("#b input");
  field.focus();
  is([press(field, "Home"), press(field, "ArrowDown"), document.activeElement.textContent], [false, true, "Three"]);
});

test("a list is placed below its button, or above without space below", () => {
  page(`<div id="list" style="position: fixed; width: 100px; height: 200px"></div>`);
  const list = $("#list");
  const at = (left, top, alignRight) => {
    place(list, { left, right: left + 20, top, bottom: top + 10 }, alignRight);
    const box = list.getBoundingClientRect();
    return [box.left, box.top];
  };
  is(at(50, 100), [50, 114]);
  is(at(50, 100, true), [8, 114], "aligned right, too near the left edge");
  is(at(innerWidth - 10, 100), [innerWidth - 108, 114], "at the right edge");
  is(at(50, innerHeight - 20), [50, innerHeight - 224], "at the bottom");
});

const showSub = () => page(`<details class="menu" id="a"><summary>A</summary><div class="menu-list"><details class="sub" id="power"><summary class="menu-item">Power</summary>
  <div class="menu-list"><a class="menu-item" href="#start">Start</a><a class="menu-item" href="#stop">Stop</a></div></details>
  <details class="sub" id="guest"><summary class="menu-item">Guest</summary><div class="menu-list"><a class="menu-item" href="#trim">Trim</a></div></details><a class="menu-item" href="#1">One</a></div></details>`);

test("keys open and close one submenu at a time, and a chosen item closes the menu", async () => {
  showSub();
  await open("a");
  const item = (id) => $(`#${id} > summary`);
  item("power").focus();
  press(item("power"), "ArrowDown");
  is(document.activeElement.textContent, "Guest", "below Power:");
  press(item("guest"), "ArrowRight");
  is([$("#guest").open, document.activeElement.textContent], [true, "Trim"]);
  press(document.activeElement, "ArrowLeft");
  is([$("#guest").open, document.activeElement.textContent], [false, "Guest"]);
  item("guest").click();
  await settle();
  item("power").click();
  await settle();
  is([$("#a").open, $("#power").open, $("#guest").open], [true, true, false]);
  $('[href="#stop"]').click();
  await settle();
  is([$("#a").open, $("#power").open], [false, false]);
});
