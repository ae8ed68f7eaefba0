import { $, is, page, press, takeClock, test } from "./harness.js";

const pass = takeClock();
await import("js/keys.js");

const show = () => page(`<input id="search"><textarea id="text"></textarea><a href="#/vms" data-key-go="v">VMs</a>
  <dialog id="shortcuts"><input type="checkbox" data-toggle-keys></dialog>`);

test("a slash focuses the search, except in a field", () => {
  show();
  is([press(document.body, "/"), document.activeElement.id], [true, "search"]);
  is(press($("#text"), "/"), false);
  is(press(document.body, "/", { ctrlKey: true }), false);
});

test("Ctrl+K focuses the search, except in a dialog", () => {
  show();
  $("#text").focus();
  is([press($("#text"), "k", { ctrlKey: true }), document.activeElement.id], [true, "search"]);
  is([press(document.body, "K", { metaKey: true }), press(document.body, "k")], [true, false]);
  $("#shortcuts").showModal();
  is(press(document.body, "k", { ctrlKey: true }), false);
  $("#shortcuts").close();
});

test("g and a letter in time open a list", async () => {
  show();
  location.hash = "";
  press(document.body, "g");
  await pass(1_199);
  is([press(document.body, "v"), location.hash], [true, "#/vms"]);
  location.hash = "";
  press(document.body, "g");
  await pass(1_200);
  is([press(document.body, "v"), location.hash], [false, ""]);
});

test("shortcuts are off behind a dialog and can be disabled permanently", () => {
  show();
  press(document.body, "?");
  is($("#shortcuts").open, true);
  is(press(document.body, "/"), false, "a slash behind a dialog is taken");
  const box = $("[data-toggle-keys]");
  box.checked = false;
  box.dispatchEvent(new Event("change", { bubbles: true }));
  $("#shortcuts").close();
  is(press(document.body, "/"), false, "a slash is taken");
  show();
  is($("[data-toggle-keys]").checked, false, "the box of the next page");
  localStorage.clear();
  is(press(document.body, "/"), true);
});
