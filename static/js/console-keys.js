// Sends text to a guest as key presses: pasted text, and input from the on-screen keyboard of phones.
import keysyms from "../vendor/novnc/core/input/keysymdef.js";
import KeyTable from "../vendor/novnc/core/input/keysym.js";
import { strokes } from "./keyboard-layouts.js";

const PAUSE = 8; // ms between characters; a guest's keyboard buffer is small
const SPECIAL = { "\n": ["Enter", KeyTable.XK_Return], "\t": ["Tab", KeyTable.XK_Tab], " ": ["Space", KeyTable.XK_space] };
const DEAD = { "`": 0xfe50, "´": 0xfe51, "^": 0xfe52, "~": 0xfe53, "¨": 0xfe57 }; // keysyms of dead keys
const WITHOUT_DEAD = ["de", "fr", "sv"]; // QEMU's keymaps of these names have no dead keys

const keysOf = (layout, character) => SPECIAL[character] ? [{ code: SPECIAL[character][0], keysym: SPECIAL[character][1] }] : strokes(layout, character);

/** Returns the characters of a text that a layout cannot type, each once. */
export const untypable = (text, layout) => [...new Set(text.replace(/\r\n?/g, "\n"))].filter((character) => !keysOf(layout, character));

export const MOST_PASTED = 10_000; // characters

/** Presses and releases one key. */
export function press(rfb, keysym, code = null) {
  rfb.sendKey(keysym, code, true);
  rfb.sendKey(keysym, code, false);
}

const KEYSYMS = {
  ControlLeft: KeyTable.XK_Control_L, AltLeft: KeyTable.XK_Alt_L, ShiftLeft: KeyTable.XK_Shift_L, MetaLeft: KeyTable.XK_Super_L,
  Backspace: KeyTable.XK_BackSpace, Tab: KeyTable.XK_Tab, Escape: KeyTable.XK_Escape, PrintScreen: KeyTable.XK_Print,
};
for (let n = 1; n <= 12; n++) KEYSYMS[`F${n}`] = KeyTable.XK_F1 + n - 1;

/** Presses or releases a key by its code. */
export const setKey = (rfb, code, down) => rfb.sendKey(KEYSYMS[code], code, down);

/** Presses keys, given by their codes, one after the other, and releases them in reverse order. */
export function combination(rfb, codes) {
  for (const code of codes) setKey(rfb, code, true);
  for (const code of codes.toReversed()) setKey(rfb, code, false);
}

// typeCharacter sends physical keys. A VM with a keyboard setting has QEMU look at the keysyms instead.
function typeCharacter(rfb, layout, character) {
  const all = keysOf(layout, character) ?? [];
  for (const stroke of all) {
    if (stroke.shift) rfb.sendKey(KeyTable.XK_Shift_L, "ShiftLeft", true);
    if (stroke.altgr) rfb.sendKey(KeyTable.XK_ISO_Level3_Shift, "AltRight", true);
    press(rfb, keysym(stroke, layout), stroke.code);
    if (stroke.altgr) rfb.sendKey(KeyTable.XK_ISO_Level3_Shift, "AltRight", false);
    if (stroke.shift) rfb.sendKey(KeyTable.XK_Shift_L, "ShiftLeft", false);
  }
}

function keysym({ keysym, dead, character }, layout) {
  if (keysym) return keysym;
  return dead && !WITHOUT_DEAD.includes(layout) ? DEAD[dead] : keysyms.lookup(character.codePointAt(0));
}

/** Types text as keys of a layout. Stops when still() returns false, because the connection has changed. */
export async function type(rfb, text, layout, still = () => true) {
  for (const character of text.replace(/\r\n?/g, "\n")) {
    if (!still()) return;
    typeCharacter(rfb, layout, character);
    await new Promise((resolve) => { setTimeout(resolve, PAUSE); });
  }
}

const FILLER = "  "; // without text to delete, Backspace causes no input event

/** Returns a field that opens a phone's keyboard and sends its input, as keys of layout(), to the RFB object that connection() returns. */
export function keyboardField(connection, layout) {
  const field = document.createElement("textarea");
  field.className = "screen-keys";
  field.value = FILLER;
  field.autocapitalize = "off";
  field.autocomplete = "off";
  field.spellcheck = false;
  field.tabIndex = -1;
  field.setAttribute("aria-label", "Keyboard of the console");
  const send = () => {
    const rfb = connection(), value = field.value;
    field.value = FILLER;
    if (!rfb) return;
    if (value.length < FILLER.length) press(rfb, KeyTable.XK_BackSpace);
    else type(rfb, value.slice(FILLER.length), layout());
  };
  field.addEventListener("input", (event) => { if (!event.isComposing) send(); });
  field.addEventListener("compositionend", send);
  return field;
}
