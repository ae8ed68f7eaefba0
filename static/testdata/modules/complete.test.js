import { $, $$, is, page, press, takeClock, takeServer, test, write } from "./harness.js";

const pass = takeClock(), asked = takeServer();
const [{ start }, { on }] = await Promise.all([import("js/complete.js"), import("js/dom.js")]);
start(on);

const options = (...values) => values.map((value) => `<li role="option" data-value="${value}">${value}</li>`).join("");
const isOpen = () => [$("input").getAttribute("aria-expanded"), !$("ul").hidden];
const chosen = () => $$('[aria-selected="true"]').map((option) => option.dataset.value);

function show() {
  page(`<label><span class="vh">Filter VMs</span><input data-complete="/complete?noun=vms"></label><button id="away">Away</button>`);
  asked.length = 0;
  $("input").focus();
  return $("input");
}

async function offered(text, caret, ...values) {
  const field = show();
  write(field, text, caret);
  await pass(120);
  await asked[0].answer(200, options(...values));
  return field;
}

test("the text before the caret is sent to the server after a pause in typing", async () => {
  const field = show();
  write(field, "ho");
  await pass(119);
  write(field, "host: prod", 5);
  await pass(119);
  is(asked.length, 0);
  await pass(1);
  is(asked.map((each) => new URL(each.url).pathname + new URL(each.url).search), ["/complete?noun=vms&q=host%3A"]);
  write(field, "x");
  is(asked[0].aborted, true, "the older question is given up:");
});

test("suggestions are shown as the field's listbox, and no suggestions close it", async () => {
  const field = await offered("s", 1, "status:", "storage:");
  is(isOpen(), ["true", true]);
  is([field.getAttribute("role"), field.getAttribute("aria-label"), $(`#${field.getAttribute("aria-controls")}`).getAttribute("role")], ["combobox", "Filter VMs", "listbox"]);
  write(field, "sx");
  await pass(120);
  await asked[1].answer(200, "");
  is(isOpen(), ["false", false]);
});

test("a response for an unfocused field and a refusal show no suggestions", async () => {
  const field = show();
  write(field, "s");
  await pass(120);
  $("#away").focus();
  await asked[0].answer(200, options("status:"));
  is(isOpen(), ["false", false]);
  field.focus();
  write(field, "st");
  await pass(120);
  await asked[1].answer(503, options("status:"));
  is(isOpen(), ["false", false]);
});

test("keys select, close and open; without a selection Enter and Tab keep their usual function", async () => {
  const field = await offered("s", 1, "a", "b", "c");
  is([press(field, "Enter"), press(field, "Tab"), press(field, "x")], [false, false, false]);
  const walk = (...keys) => keys.map((key) => { press(field, key); return chosen().join(); });
  is(walk("ArrowDown", "ArrowDown", "ArrowDown", "ArrowDown", "ArrowUp"), ["a", "b", "c", "a", "c"]);
  is($(`#${field.getAttribute("aria-activedescendant")}`).dataset.value, "c");
  is([press(field, "Escape"), ...isOpen()], [true, "false", false]);
  is([press(field, "Escape"), press(field, "ArrowUp")], [false, false], "taken while closed");
  press(field, "ArrowDown");
  await pass(120);
  await asked.at(-1).answer(200, options("x", "y"));
  is(walk("ArrowUp"), ["y"]);
});

test("a chosen suggestion replaces the word before the caret", async () => {
  for (const key of ["Enter", "Tab"]) {
    const field = await offered("web ho  prod", 6, "host-1");
    press(field, "ArrowDown");
    is([press(field, key), field.value, field.selectionStart, ...isOpen()], [true, "web host-1 prod", 11, "false", false], key);
  }
  await pass(500);
  is(asked.length, 1, "questions");
});

test("a chosen key requests suggestions of its values", async () => {
  const field = await offered("sta", 3, "status:");
  press(field, "ArrowDown");
  press(field, "Enter");
  is([field.value, field.selectionStart], ["status:", 7]);
  await pass(120);
  is(new URL(asked[1].url).searchParams.get("q"), "status:");
});

test("a click chooses a suggestion and keeps the focus in the field", async () => {
  const field = await offered("h", 1, "host-1", "host-2");
  const taken = !$$("[role=option]")[1].dispatchEvent(new PointerEvent("pointerdown", { bubbles: true, cancelable: true }));
  is([taken, field.value, document.activeElement === field], [true, "host-2 ", true]);
});
