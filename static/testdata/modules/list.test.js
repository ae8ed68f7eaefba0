import { $, $$, is, page, press, test } from "./harness.js";
import "js/list.js";

const table = (n) => page(`<form data-list><b data-count></b><div class="table-wrap"><table><thead><tr><td><input type="checkbox" data-select-all></td></tr></thead>
  <tbody>${Array.from({ length: n }, (_, i) => `<tr><td><input type="checkbox" data-select-row value="${i}"></td><th><a href="#${i}">vm ${i}</a></th></tr>`).join("")}</tbody></table></div></form>`);
const box = (i) => $(`[data-select-row][value="${i}"]`);
const ticked = () => $$("[data-select-row]:checked").map((each) => Number(each.value));
const all = () => $("[data-select-all]");

test("the header checkbox selects all rows and shows a partial selection", () => {
  table(4);
  is([$("[data-count]").textContent, all().checked, all().indeterminate], ["0", false, false]);
  box(1).click();
  is([$("[data-count]").textContent, all().checked, all().indeterminate], ["1", false, true]);
  all().click();
  is([ticked(), $("[data-count]").textContent, all().indeterminate], [[0, 1, 2, 3], "4", false]);
  all().click();
  is(ticked(), []);
});

test("Shift selects or clears a range of rows in both directions", () => {
  table(8);
  const shift = (i) => box(i).dispatchEvent(new MouseEvent("click", { shiftKey: true, bubbles: true, cancelable: true }));
  box(6).click();
  shift(3);
  is(ticked(), [3, 4, 5, 6]);
  shift(5);
  is(ticked(), [6], "after unticking from 3 to 5");
});

test("keys move between rows and select them", () => {
  table(3);
  const wrap = $(".table-wrap");
  press(wrap, "j");
  is(document.activeElement.textContent, "vm 0");
  press(document.activeElement, "ArrowDown");
  is(document.activeElement.textContent, "vm 1");
  press(document.activeElement, "x");
  is(ticked(), [1]);
  press(document.activeElement, "k");
  press(document.activeElement, "k");
  is(document.activeElement.textContent, "vm 2", "before the first comes the last:");
  is(press(document.activeElement, "j", { ctrlKey: true }), false, "Ctrl+J is taken");
});
