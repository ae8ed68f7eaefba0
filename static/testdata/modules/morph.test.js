import { $, $$, is, page, test } from "./harness.js";
import "js/morph.js";

const morph = (html) => Idiomorph.morph($("#live"), `<div id="live">${html}</div>`);

test("a refresh updates content and keeps the user's state", () => {
  page(`<div id="live"><p>old</p><details id="d"><summary>More</summary></details><form data-keep><input value="typed"></form></div>`);
  $("#d").open = true;
  morph(`<p>new</p><details id="d"><summary>More</summary></details><form data-keep><input value="fresh"></form>`);
  is([$("p").textContent, $("#d").open, $("form input").value], ["new", true, "typed"]);
});

test("a refresh updates a closed menu but not an open one", () => {
  const menu = (item) => `<details class="menu" id="m"><summary>Act</summary><a>${item}</a></details>`;
  page(`<div id="live">${menu("Start")}</div>`);
  $("#m").open = true;
  morph(menu("Stop"));
  is($("#m a").textContent, "Start");
  $("#m").open = false;
  morph(menu("Stop"));
  is($("#m a").textContent, "Stop");
});

test("a refresh changes the words of a focused button, but not the text in a focused field", () => {
  page(`<div id="live"><form action="/ask"><button id="b">Ask</button></form><input id="i" value="old"></div>`);
  $("#b").focus();
  morph(`<form action="/give"><button id="b"><svg></svg>Give</button></form><input id="i" value="new">`);
  is([$("#b").textContent, $("form").getAttribute("action"), document.activeElement.id], ["Give", "/give", "b"]);
  $("#i").focus();
  $("#i").value = "typed";
  morph(`<form action="/give"><button id="b">Give</button></form><input id="i" value="newer">`);
  is($("#i").value, "typed");
});

test("a selection follows its object, not the row's position", () => {
  const rows = (...ids) => `<table><tbody>${ids.map((id) => `<tr><td><input type="checkbox" data-select-row value="${id}"></td></tr>`).join("")}</tbody></table>`;
  page(`<div id="live">${rows("a", "b")}</div>`);
  $("[value=a]").checked = true;
  morph(rows("a", "b", "c"));
  is($$("input:checked").map((box) => box.value), ["a"], "ticked after a row came");
  morph(rows("x", "b", "c"));
  is($$("input:checked").map((box) => box.value), [], "ticked after its row went");
});

test("a refresh keeps loaded levels and open rows of the tree", () => {
  const level = (inner, expanded) => `<ul><li role="treeitem" aria-expanded="${expanded}" tabindex="-1"><ul data-lazy>${inner}</ul></li></ul>`;
  page(`<div id="live">${level("<li>vm</li>", true)}</div>`);
  $("[role=treeitem]").tabIndex = 0;
  morph(level("", false));
  const item = $("[role=treeitem]");
  is([item.getAttribute("aria-expanded"), item.tabIndex, $("[data-lazy]").textContent], ["true", 0, "vm"]);
  morph(`<ul><li role="treeitem" aria-expanded="false"></li></ul>`); // the server renders no level for rows that the user opened
  is([$("[role=treeitem]").getAttribute("aria-expanded"), $("[data-lazy]").textContent], ["true", "vm"]);
  $("[data-lazy]").replaceChildren();
  morph(`<ul><li role="treeitem" aria-expanded="false"></li></ul>`);
  is($$("[data-lazy]").length, 1, "a level that still loads:");
});
