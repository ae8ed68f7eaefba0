import { is, test } from "./harness.js";

const { defaultLayout, layouts, strokes } = await import("js/keyboard-layouts.js");

// Names of keysyms in QEMU's keymaps that are not their own character.
const KEYSYMS = {
  exclam: "!", quotedbl: '"', numbersign: "#", dollar: "$", percent: "%", ampersand: "&", apostrophe: "'", parenleft: "(", parenright: ")", asterisk: "*", plus: "+", comma: ",",
  minus: "-", period: ".", slash: "/", colon: ":", semicolon: ";", less: "<", equal: "=", greater: ">", question: "?", at: "@", bracketleft: "[", backslash: "\\", bracketright: "]",
  asciicircum: "^", underscore: "_", grave: "`", braceleft: "{", bar: "|", braceright: "}", asciitilde: "~", EuroSign: "€", sterling: "£", section: "§", degree: "°", acute: "´",
  diaeresis: "¨", notsign: "¬", mu: "µ", ssharp: "ß", adiaeresis: "ä", odiaeresis: "ö", udiaeresis: "ü", Adiaeresis: "Ä", Odiaeresis: "Ö", Udiaeresis: "Ü", eacute: "é", egrave: "è",
  agrave: "à", ccedilla: "ç", Ccedilla: "Ç", ugrave: "ù", igrave: "ì", ograve: "ò", ntilde: "ñ", Ntilde: "Ñ", aring: "å", Aring: "Å", ae: "æ", AE: "Æ", oslash: "ø", Oslash: "Ø",
  currency: "¤", onehalf: "½", onesuperior: "¹", twosuperior: "²", threesuperior: "³", exclamdown: "¡", questiondown: "¿", masculine: "º", ordfeminine: "ª", guillemotleft: "«",
  guillemotright: "»", periodcentered: "·", cent: "¢", eogonek: "ę", Eogonek: "Ę", oacute: "ó", Oacute: "Ó", aogonek: "ą", Aogonek: "Ą", sacute: "ś", Sacute: "Ś", lstroke: "ł",
  Lstroke: "Ł", zabovedot: "ż", Zabovedot: "Ż", zacute: "ź", Zacute: "Ź", cacute: "ć", Cacute: "Ć", nacute: "ń", Nacute: "Ń",
  dead_grave: "`", dead_acute: "´", dead_circumflex: "^", dead_tilde: "~", dead_diaeresis: "¨",
};
const SCANCODES = {
  "29": "Backquote", "0c": "Minus", "0d": "Equal", "1a": "BracketLeft", "1b": "BracketRight", "27": "Semicolon", "28": "Quote", "2b": "Backslash", "56": "IntlBackslash",
  "33": "Comma", "34": "Period", "35": "Slash", "73": "IntlRo", "7d": "IntlYen", "39": "Space",
};
[..."1234567890"].forEach((digit, at) => { SCANCODES[(2 + at).toString(16).padStart(2, "0")] = `Digit${digit}`; });
["QWERTYUIOP", "ASDFGHJKL", "ZXCVBNM"].forEach((row, at) => {
  [...row].forEach((letter, n) => { SCANCODES[([0x10, 0x1e, 0x2c][at] + n).toString(16).padStart(2, "0")] = `Key${letter}`; });
});

async function keymap(name) {
  const out = new Set();
  for (const line of (await (await fetch(`/keymaps/${name}`)).text()).split("\n")) {
    const [, keysym, scancode, levels] = line.match(/^(\S+) 0x([0-9a-f]+)((?: \w+)*)$/) ?? [];
    const code = SCANCODES[scancode?.padStart(2, "0")], character = KEYSYMS[keysym] ?? keysym;
    if (code) out.add(`${character} ${code} ${levels.includes("shift")} ${levels.includes("altgr")}`);
  }
  return out;
}

const range = [..."€"];
for (let code = 0x21; code < 0x180; code++) range.push(String.fromCodePoint(code));

for (const { id } of layouts) {
  test(`the layout ${id} agrees with QEMU's keymap`, async () => {
    const known = await keymap(id === "de-nodeadkeys" ? "de" : id);
    is(known.size > 60, true, "the keymap has keys");
    const wrong = [];
    for (const character of range) {
      for (const stroke of strokes(id, character) ?? []) {
        const at = (sign, shift) => known.has(`${sign} ${stroke.code} ${shift} ${stroke.altgr}`);
        const lower = stroke.character.toLowerCase(), upper = lower !== stroke.character && stroke.shift && at(lower, false); // QEMU adds these
        if (stroke.code !== "Space" && !upper && !at(stroke.character, stroke.shift)) wrong.push(`${stroke.character} ${stroke.code}`);
      }
    }
    is([...new Set(wrong)], []);
  });
}

test("every layout types the characters of passwords and paths", () => {
  const missing = layouts.flatMap(({ id }) => [..."abcxyzABCXYZ0123456789!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"].filter((character) => !strokes(id, character)).map((character) => id + character));
  is(missing, []);
});

test("the VM's setting decides, then the browser's languages", () => {
  is(defaultLayout("pt-br", ["de"]), "pt-br");
  is(defaultLayout("unknown", ["xx", "de-AT", "fr"]), "de");
  is([defaultLayout("", ["en-GB"]), defaultLayout("", ["en"]), defaultLayout("", ["nb-NO"]), defaultLayout(undefined, ["de-CH"])], ["en-gb", "en-us", "no", "de-ch"]);
  is(defaultLayout("", []), "en-us");
});
