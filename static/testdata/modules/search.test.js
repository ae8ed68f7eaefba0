import { $, is, page, press, test, write } from "./harness.js";
import "js/search.js";

const show = (results = `<a href="#1">One</a><a href="#2">Two</a>`) => {
  page(`<form class="search"><input type="search"><div class="results">${results}</div></form>`);
  $("input").focus();
};
const walk = (...keys) => keys.map((key) => { press(document.activeElement, key); return document.activeElement.textContent || document.activeElement.tagName; });
const isClosed = () => $(".results").matches(".closed");

test("arrow keys move through the results and back to the field", () => {
  show();
  is(walk("ArrowDown", "ArrowDown", "ArrowUp", "ArrowUp"), ["One", "Two", "One", "INPUT"]);
});

test("Escape closes the results, typing and arrow keys open them", () => {
  show();
  walk("ArrowDown");
  is([press(document.activeElement, "Escape"), isClosed(), document.activeElement.tagName], [true, true, "INPUT"]);
  write($("input"), "w");
  is(isClosed(), false);
  press($("input"), "Escape");
  press($("input"), "ArrowDown");
  is(isClosed(), false);
});

test("without results the keys keep their function in the field", () => {
  show("");
  is([press($("input"), "Escape"), press($("input"), "ArrowDown"), press($("input"), "Enter")], [false, false, false]);
});
