import { is, page, takeClock, test } from "./harness.js";

const pass = takeClock();
const { combination, keyboardField, type, untypable } = await import("js/console-keys.js");

const NAMES = { 0xff0d: "Return", 0xff09: "Tab", 0xff08: "BackSpace", 0xffe1: "Shift", 0xfe03: "AltGr", 0xfe51: "dead ´", 0x10020ac: "€", 0x20ac: "€", 0xe9: "é", 0x20: "Space" };
const guest = () => {
  const keys = [], codes = [];
  return { keys, codes, sendKey: (keysym, code, down) => {
    keys.push((down ? "+" : "-") + (NAMES[keysym] ?? String.fromCodePoint(keysym % 0x1000000)));
    if (down) codes.push(code);
  } };
};
const typed = async (text, layout = "en-us") => {
  const rfb = guest();
  const done = type(rfb, text, layout);
  await pass(1_000);
  await done;
  return rfb.keys.join(" ");
};

test("each character is pressed and released, with Shift and AltGr where the layout needs them", async () => {
  is(await typed("a1"), "+a -a +1 -1");
  is(await typed("A!"), "+Shift +A -A -Shift +Shift +! -! -Shift");
  is(await typed("€", "de"), "+AltGr +€ -€ -AltGr");
});

test("accents of dead keys are typed before their letter, or before a space", async () => {
  is(await typed("é", "es"), "+dead ´ -dead ´ +e -e");
  is(await typed("´", "es"), "+dead ´ -dead ´ +Space -Space");
});

test("a layout decides which physical keys are pressed", async () => {
  const codes = async (text, layout) => {
    const rfb = guest(), done = type(rfb, text, layout);
    await pass(1_000);
    await done;
    return rfb.codes.join(" ");
  };
  is(await codes("yz@|", "de"), "KeyZ KeyY AltRight KeyQ AltRight IntlBackslash");
  is(await codes("yz@|", "en-us"), "KeyY KeyZ ShiftLeft Digit2 ShiftLeft Backslash");
  is(await codes("aA", "fr"), "KeyQ ShiftLeft KeyQ");
});

test("characters that a layout cannot type are named once, and omitted", async () => {
  is(untypable("aßß€\r\n", "en-us"), ["ß", "€"]);
  is(untypable("aßß€", "de"), []);
  is(await typed("aßb"), "+a -a +b -b");
});

test("the keys of a combination are pressed in order and released in reverse", () => {
  const rfb = guest();
  combination(rfb, ["ControlLeft", "AltLeft", "F2"]);
  is([rfb.codes.join(" "), rfb.keys.length, rfb.keys[2][0], rfb.keys[5]], ["ControlLeft AltLeft F2", 6, "+", "-" + rfb.keys[0].slice(1)]);
});

test("every kind of line end is typed as Return", async () => {
  is(await typed("\r\n\n\r\t"), "+Return -Return +Return -Return +Return -Return +Tab -Tab");
});

test("characters are typed with pauses, and typing stops when the connection ends", async () => {
  const rfb = guest();
  let open = true;
  type(rfb, "abc", "en-us", () => open);
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
  const field = keyboardField(() => rfb, () => "es");
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
  is([rfb.keys.slice(4).join(" "), field.value], ["+dead ´ -dead ´ +e -e", blank]);
  rfb = null;
  input(blank + "y");
  is(field.value, blank, "without a connection");
});
