// Sends text to a guest as key presses: pasted text, and input from the on-screen keyboard of phones.
import keysyms from "../vendor/novnc/core/input/keysymdef.js";
import KeyTable from "../vendor/novnc/core/input/keysym.js";

const PAUSE = 8; // ms between characters; a guest's keyboard buffer is small
const SHIFTED = /[A-Z~!@#$%^&*()_+{}|:"<>?]/; // on the US layout that QEMU assumes
const SPECIAL = { "\n": KeyTable.XK_Return, "\t": KeyTable.XK_Tab };

/** Returns the characters of a text that a US keyboard cannot type, each once. */
export const untypable = (text) => [...new Set(text.replace(/[\n\r\t\x20-\x7e]/gu, ""))];

export const MOST_PASTED = 10_000; // characters

/** Presses and releases one key. */
export function press(rfb, keysym) {
  rfb.sendKey(keysym, null, true);
  rfb.sendKey(keysym, null, false);
}

function typeCharacter(rfb, character) {
  const shift = SHIFTED.test(character);
  if (shift) rfb.sendKey(KeyTable.XK_Shift_L, "ShiftLeft", true);
  press(rfb, SPECIAL[character] ?? keysyms.lookup(character.codePointAt(0)));
  if (shift) rfb.sendKey(KeyTable.XK_Shift_L, "ShiftLeft", false);
}

/** Types text as keys. Stops when still() returns false, because the connection has changed. */
export async function type(rfb, text, still = () => true) {
  for (const character of text.replace(/\r\n?/g, "\n")) {
    if (!still()) return;
    typeCharacter(rfb, character);
    await new Promise((resolve) => { setTimeout(resolve, PAUSE); });
  }
}

const FILLER = "  "; // without text to delete, Backspace causes no input event

/** Returns a field that opens a phone's keyboard and sends its input to the RFB object that connection() returns. */
export function keyboardField(connection) {
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
    else type(rfb, value.slice(FILLER.length));
  };
  field.addEventListener("input", (event) => { if (!event.isComposing) send(); });
  field.addEventListener("compositionend", send);
  return field;
}
