import { is, page, takeClock, test } from "./harness.js";

const pass = takeClock();
const { keyboardField, type } = await import("js/console-keys.js");

const NAMES = { 0xff0d: "Return", 0xff09: "Tab", 0xff08: "BackSpace", 0xffe1: "Shift", 0x20ac: "euro", 0xe9: "é" };
const guest = () => {
  const keys = [];
  return { keys, sendKey: (keysym, code, down) => keys.push((down ? "+" : "-") + (NAMES[keysym] ?? String.fromCodePoint(keysym % 0x1000000))) };
};
const typed = async (text) => {
  const rfb = guest();
  const done = type(rfb, text);
  await pass(1_000);
  await done;
  return rfb.keys.join(" ");
};

test("each character is pressed and released, with Shift where a US keyboard needs it", async () => {
  is(await typed("a1"), "+a -a +1 -1");
  is(await typed("A!"), "+Shift +A -A -Shift +Shift +! -! -Shift");
  is(await typed("é"), "+é -é");
});

test("every kind of line end is typed as Return", async () => {
  is(await typed("\r\n\n\r\t"), "+Return -Return +Return -Return +Return -Return +Tab -Tab");
});

test("characters are typed with pauses, and typing stops when the connection ends", async () => {
  const rfb = guest();
  let open = true;
  type(rfb, "abc", () => open);
  is(rfb.keys.length, 2);
  await pass(7);
  is(rfb.keys.length, 2, "before its time");
  await pass(1);
  is(rfb.keys.join(" "), "+a -a +b -b");
  open = false;
  await pass(100);
  is(rfb.keys.length, 4, "after the end");
});

test("a phone's keyboard types, deletes, and sends composed text once it is complete", async () => {
  page("");
  let rfb = guest();
  const field = keyboardField(() => rfb);
  document.body.append(field);
  const input = (text, isComposing = false) => {
    field.value = text;
    field.dispatchEvent(new InputEvent("input", { bubbles: true, isComposing }));
  };
  const blank = field.value;
  input(blank + "x");
  input(blank.slice(1));
  input(blank + "a", true);
  is([rfb.keys.join(" "), field.value], ["+x -x +BackSpace -BackSpace", blank + "a"]);
  field.value = blank + "é";
  field.dispatchEvent(new CompositionEvent("compositionend"));
  is([rfb.keys.slice(4).join(" "), field.value], ["+é -é", blank]);
  rfb = null;
  input(blank + "y");
  is(field.value, blank, "without a connection");
});
