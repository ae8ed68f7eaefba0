import { $, $$, is, page, press, takeClock, test } from "./harness.js";

const pass = takeClock();
localStorage.setItem("quantix.open", JSON.stringify(["inventory host:9", "inventory host:2"]));
await import("js/tree.js");

const item = (id, name, more = "", inner = "") => `<li role="treeitem" id="${id}" ${more}><div class="row"><button class="twist" tabindex="-1"></button><a href="#${id}"><span class="name">${name}</span></a></div>${inner}</li>`;
const level = (inner = "") => `<ul role="group" data-lazy>${inner}</ul>`;
const closed = (key) => `aria-expanded="false" data-key="${key}"`;
const tree = () => `<ul role="tree" id="inventory">${item("alpha", "Alpha", closed("host:1"), level(item("a1", "app") + item("a2", "db")))}
  ${item("beta", "Beta", closed("host:2"), level())}${item("gamma", "gamma", "aria-current=page")}</ul>`;

let opened = [];
document.addEventListener("open", ({ target }) => opened.push(target.parentElement.id), { capture: true });
function show() {
  opened = [];
  page(tree());
}
const stops = () => $$('[tabindex="0"]').map((each) => each.id);
const walk = (...keys) => keys.map((key) => { press(document.activeElement, key); return document.activeElement.id; });
const kept = () => JSON.parse(localStorage.getItem("quantix.open"));
const expanded = (id) => $(`#${id}`).getAttribute("aria-expanded");

test("stored rows are reopened once, and a refresh keeps the user's state", () => {
  show();
  is([expanded("alpha"), expanded("beta"), opened], ["false", "true", ["beta"]]);
  localStorage.setItem("quantix.open", `["inventory host:1", "inventory host:2"]`); // another tab has opened Alpha
  $("#beta .twist").click();
  document.body.dispatchEvent(new CustomEvent("htmx:afterSettle", { bubbles: true }));
  is([expanded("alpha"), expanded("beta"), kept()], ["false", "false", ["inventory host:1"]]);
  localStorage.removeItem("quantix.open");
  $("#beta .twist").click();
  $("#beta .twist").click();
});

test("one row is the tab stop: the page's object, then the last focused row", () => {
  show();
  is([stops(), $$("a").every((link) => link.tabIndex === -1)], [["gamma"], true]);
  $("#gamma").focus();
  walk("ArrowUp");
  is(stops(), ["beta"]);
});

test("keys move between visible rows and open and close levels", () => {
  show();
  $("#gamma").focus();
  is(walk("Home", "ArrowDown", "End", "ArrowDown"), ["alpha", "beta", "gamma", "gamma"]);
  is(walk("Home", "ArrowRight"), ["alpha", "alpha"]);
  is([expanded("alpha"), opened], ["true", ["alpha"]]);
  is(walk("ArrowRight", "ArrowDown", "ArrowDown", "ArrowUp", "ArrowLeft", "ArrowLeft"), ["a1", "a2", "beta", "a2", "alpha", "alpha"]);
  is([expanded("alpha"), walk("ArrowDown")], ["false", ["beta"]]);
});

test("a missing level is created once when its row is opened", () => {
  page(`<ul role="tree" id="tree-hosts">${item("t--host-3", "Delta", `${closed("host:3")} data-follow="* vms"`)}${item("t--project-4", "Epsilon", closed("project:4"))}</ul>`);
  for (const id of ["t--host-3", "t--project-4"]) for (let i = 0; i < 3; i++) $(`#${id} .twist`).click();
  const made = $$("[data-lazy]").map((level) => [level.id, level.dataset.live, level.getAttribute("hx-get"), level.getAttribute("hx-trigger"), level.parentElement.id]);
  is(made, [
    ["t--host-3-level", "host:3 vms", "/tree/hosts/host%3A3", "open, poke", "t--host-3"],
    ["t--project-4-level", "vms", "/tree/hosts/project%3A4", "open, poke", "t--project-4"],
  ]);
});

test("opened rows are stored in addition to those of another tab", () => {
  localStorage.setItem("quantix.open", `["inventory host:7"]`);
  show();
  $("#alpha .twist").click();
  is(kept(), ["inventory host:7", "inventory host:1"]);
  localStorage.setItem("quantix.open", JSON.stringify(Array.from({ length: 200 }, (_, i) => `inventory vm:${i}`)));
  show();
  $("#beta .twist").click();
  is([kept().length, kept()[0], kept().at(-1)], [200, "inventory vm:1", "inventory host:2"], "the oldest goes:");
});

test("Enter follows the row's link, letters find names", async () => {
  show();
  $("#gamma").focus();
  location.hash = "";
  press($("#gamma"), "Enter");
  is(location.hash, "#gamma");
  is(walk("b"), ["beta"]);
  await pass(701);
  is(walk("g", "a"), ["gamma", "gamma"]);
  await pass(701);
  is(walk("a"), ["alpha"]);
  is(press($("#alpha"), "b", { ctrlKey: true }), false, "Ctrl+B is taken");
});
