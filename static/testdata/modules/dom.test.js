import { $, $$, is, page, test } from "./harness.js";
import { isTyping, moveFocus, on, onContent } from "js/dom.js";

test("an event inside a matching element calls the handler", () => {
  const got = [];
  on("ping", "[data-ping]", (_, element) => got.push(element.id));
  page(`<div id="a" data-ping><i><b>x</b></i></div><u>y</u>`);
  for (const place of ["b", "#a", "u"]) $(place).dispatchEvent(new CustomEvent("ping", { bubbles: true }));
  is(got, ["a", "a"]);
});

test("onContent runs at once and after each change by htmx", () => {
  let looks = 0;
  onContent(() => looks++);
  page("");
  page("");
  is(looks, 3);
});

test("a checkbox is not a typing target, the console is", () => {
  page(`<input id="text"><input id="box" type="checkbox"><div id="console"><i id="in"></i></div><div contenteditable><b id="edit"></b></div><a id="link"></a>`);
  is(["text", "box", "in", "edit", "link"].filter((id) => isTyping($(`#${id}`))), ["text", "in", "edit"]);
  is(isTyping(document), false);
});

test("the focus wraps around", () => {
  page(`<button>1</button><button>2</button><button>3</button>`);
  const walk = (...steps) => steps.map((step) => { moveFocus($$("button"), step); return document.activeElement.textContent; }).join("");
  is(walk(1, 1, 1, 1, -1), "12313");
  document.activeElement.blur();
  is(walk(-1), "3");
  moveFocus([], 1);
});
