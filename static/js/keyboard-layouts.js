// Keyboard layouts of guests: which physical keys type a character. Names are those of QEMU's keymaps.

// KEYS are the physical keys of each row of a layout, as KeyboardEvent.code.
const KEYS = [
  ["Backquote", ..."1234567890".split("").map((digit) => `Digit${digit}`), "Minus", "Equal"],
  [..."QWERTYUIOP".split("").map((letter) => `Key${letter}`), "BracketLeft", "BracketRight"],
  [..."ASDFGHJKL".split("").map((letter) => `Key${letter}`), "Semicolon", "Quote", "Backslash"],
  ["IntlBackslash", ..."ZXCVBNM".split("").map((letter) => `Key${letter}`), "Comma", "Period", "Slash", "IntlRo", "IntlYen"],
];

const QWERTY = ["QWERTYUIOP", "ASDFGHJKL", "ZXCVBNM"], QWERTZ = ["QWERTZUIOP", "ASDFGHJKL", "YXCVBNM"], AZERTY = ["AZERTYUIOP", "QSDFGHJKLM", "WXCVBN"];

// A layout has the characters of its letters, and of the other keys in the order of KEYS: alone, with Shift, with AltGr
// and with both. A space is a key without a character that is the same on Linux and Windows. dead are keys that wait for a letter.
const US = { letters: QWERTY, plain: ["`1234567890-=", "[]", ";'\\", " ,./"], shift: ["~!@#$%^&*()_+", "{}", ':"|', " <>?"] };
const GERMAN = {
  letters: QWERTZ, plain: [" 1234567890ß ", "ü+", "öä#", "<,.-"], shift: ['°!"§$%&/()=? ', "Ü*", "ÖÄ'", ">;:_"],
  altgr: { Digit2: "²", Digit3: "³", Digit7: "{", Digit8: "[", Digit9: "]", Digit0: "}", Minus: "\\", KeyQ: "@", KeyE: "€", BracketRight: "~", IntlBackslash: "|", KeyM: "µ" },
};
const SWISS_ALTGR = {
  Digit2: "@", Digit3: "#", Digit6: "¬", Digit7: "|", Digit8: "¢", KeyE: "€", BracketLeft: "[", BracketRight: "]", Quote: "{", Backslash: "}", IntlBackslash: "\\",
};
const SWISS_DEAD = { "^": "Equal", "`": "Shift+Equal", "¨": "BracketRight", "´": "AltGr+Minus", "~": "AltGr+Equal" };
const NORDIC_ALTGR = { Digit2: "@", Digit3: "£", Digit4: "$", Digit7: "{", Digit8: "[", Digit9: "]", Digit0: "}", KeyE: "€", KeyM: "µ" };
const NORDIC_DEAD = { "¨": "BracketRight", "^": "Shift+BracketRight", "~": "AltGr+BracketRight", "`": "Shift+Equal" };
const SWEDISH = {
  letters: QWERTY, plain: ["§1234567890+ ", "å ", "öä'", "<,.-"], shift: ['½!"#¤%&/()=? ', "Å ", "ÖÄ*", ">;:_"],
  altgr: { ...NORDIC_ALTGR, Minus: "\\", IntlBackslash: "|" }, dead: { ...NORDIC_DEAD, "´": "Equal" },
};

const LAYOUTS = {
  "en-us": { name: "English (US)", ...US },
  "en-gb": {
    name: "English (UK)", letters: QWERTY, plain: ["`1234567890-=", "[]", ";'#", "\\,./"], shift: ['¬!"£$%^&*()_+', "{}", ":@~", "|<>?"], altgr: { Digit4: "€" },
  },
  da: {
    name: "Danish", letters: QWERTY, plain: ["½1234567890+ ", "å ", "æø'", "<,.-"], shift: ['§!"#¤%&/()=? ', "Å ", "ÆØ*", ">;:_"],
    altgr: { ...NORDIC_ALTGR, Equal: "|", IntlBackslash: "\\" }, dead: { ...NORDIC_DEAD, "´": "Equal" },
  },
  fi: { name: "Finnish", ...SWEDISH },
  fr: {
    name: "French", letters: AZERTY, plain: ["²&é\"'(-è_çà)=", " $", "ù*", "<,;:!"], shift: [" 1234567890°+", " £", "%µ", ">?./§"],
    altgr: { Digit2: "~", Digit3: "#", Digit4: "{", Digit5: "[", Digit6: "|", Digit7: "`", Digit8: "\\", Digit9: "^", Digit0: "@", Minus: "]", Equal: "}", KeyE: "€", BracketRight: "¤" },
    dead: { "^": "BracketLeft", "¨": "Shift+BracketLeft" },
  },
  "fr-be": {
    name: "French (Belgium)", letters: AZERTY, plain: ["²&é\"'(§è!çà)-", " $", "ùµ", "<,;:="], shift: ["³1234567890°_", " *", "%£", ">?./+"],
    altgr: { Digit1: "|", Digit2: "@", Digit3: "#", Digit6: "^", Digit9: "{", Digit0: "}", KeyE: "€", BracketLeft: "[", BracketRight: "]", IntlBackslash: "\\" },
    dead: { "^": "BracketLeft", "¨": "Shift+BracketLeft", "´": "AltGr+Quote", "`": "AltGr+Backslash", "~": "AltGr+Slash" },
  },
  "fr-ch": {
    name: "French (Switzerland)", letters: QWERTZ, plain: ["§1234567890' ", "è ", "éà$", "<,.-"], shift: ['°+"*ç%&/()=? ', "ü!", "öä£", ">;:_"], altgr: SWISS_ALTGR, dead: SWISS_DEAD,
  },
  de: { name: "German", ...GERMAN, dead: { "^": "Backquote", "´": "Equal", "`": "Shift+Equal" } },
  "de-nodeadkeys": { name: "German (no dead keys)", ...GERMAN, plain: ["^1234567890ß´", ...GERMAN.plain.slice(1)], shift: ['°!"§$%&/()=?`', ...GERMAN.shift.slice(1)] },
  "de-ch": {
    name: "German (Switzerland)", letters: QWERTZ, plain: ["§1234567890' ", "ü ", "öä$", "<,.-"], shift: ['°+"*ç%&/()=? ', "è!", "éà£", ">;:_"], altgr: SWISS_ALTGR, dead: SWISS_DEAD,
  },
  it: {
    name: "Italian", letters: QWERTY, plain: ["\\1234567890'ì", "è+", "òàù", "<,.-"], shift: ['|!"£$%&/()=?^', "é*", "ç°§", ">;:_"],
    altgr: { Minus: "`", Equal: "~", KeyE: "€", BracketLeft: "[", BracketRight: "]", Semicolon: "@", Quote: "#" }, both: { BracketLeft: "{", BracketRight: "}" },
  },
  ja: {
    name: "Japanese", letters: QWERTY, plain: [" 1234567890-^", "@[", ";:]", " ,./\\ "], shift: [" !\"#$%&'() =~", "`{", "+*}", " <>?_|"],
  },
  no: {
    name: "Norwegian", letters: QWERTY, plain: ["|1234567890+\\", "å ", "øæ'", "<,.-"], shift: ['§!"#¤%&/()=? ', "Å ", "ØÆ*", ">;:_"],
    altgr: NORDIC_ALTGR, dead: { ...NORDIC_DEAD, "´": "AltGr+Equal" },
  },
  pl: {
    name: "Polish", ...US, altgr: { KeyE: "ę", KeyO: "ó", KeyA: "ą", KeyS: "ś", KeyL: "ł", KeyZ: "ż", KeyX: "ź", KeyC: "ć", KeyN: "ń" },
    both: { KeyE: "Ę", KeyO: "Ó", KeyA: "Ą", KeyS: "Ś", KeyL: "Ł", KeyZ: "Ż", KeyX: "Ź", KeyC: "Ć", KeyN: "Ń" },
  },
  pt: {
    name: "Portuguese", letters: QWERTY, plain: ["\\1234567890'«", "+ ", "çº ", "<,.-"], shift: ['|!"#$%&/()=?»', "* ", "Çª ", ">;:_"],
    altgr: { Digit2: "@", Digit3: "£", Digit4: "§", Digit7: "{", Digit8: "[", Digit9: "]", Digit0: "}", KeyE: "€" },
    dead: { "´": "BracketRight", "`": "Shift+BracketRight", "~": "Backslash", "^": "Shift+Backslash", "¨": "AltGr+BracketLeft" },
  },
  "pt-br": {
    name: "Portuguese (Brazil)", letters: QWERTY, plain: ["'1234567890-=", " [", "ç ]", "\\,.;/"], shift: ['"!@#$% &*()_+', " {", "Ç }", "|<>:?"],
    altgr: { Digit1: "¹", Digit2: "²", Digit3: "³", Digit4: "£", Digit5: "¢", Digit6: "¬", Equal: "§", KeyE: "€", BracketRight: "ª", Backslash: "º" },
    dead: { "´": "BracketLeft", "`": "Shift+BracketLeft", "¨": "Shift+Digit6", "~": "Quote", "^": "Shift+Quote" },
  },
  es: {
    name: "Spanish", letters: QWERTY, plain: ["º1234567890'¡", " +", "ñ ç", "<,.-"], shift: ['ª!"·$%&/()=?¿', " *", "Ñ Ç", ">;:_"],
    altgr: { Backquote: "\\", Digit1: "|", Digit2: "@", Digit3: "#", Digit4: "~", Digit6: "¬", KeyE: "€", BracketLeft: "[", BracketRight: "]", Quote: "{", Backslash: "}" },
    dead: { "`": "BracketLeft", "^": "Shift+BracketLeft", "´": "Quote", "¨": "Shift+Quote" },
  },
  sv: { name: "Swedish", ...SWEDISH },
};

/** Names and titles of all layouts, by title. */
export const layouts = Object.entries(LAYOUTS).map(([id, { name }]) => ({ id, name })).sort((a, b) => a.name.localeCompare(b.name, "en"));

// characterKeys returns the strokes of each character of a layout: {code, shift, altgr, character, dead}; two with a dead key.
function characterKeys(layout) {
  const keys = new Map();
  const add = (character, code, shift, altgr) => {
    if (character && character !== " " && !keys.has(character)) keys.set(character, [{ code, shift, altgr, character }]);
  };
  for (const [level, shift] of [["plain", false], ["shift", true]]) {
    KEYS.forEach((codes, row) => {
      const letters = [...(row === 0 ? "" : layout.letters[row - 1])].map((letter) => shift ? letter : letter.toLowerCase());
      const before = codes.findIndex((code) => code.startsWith("Key")), others = [...layout[level][row]];
      const all = row === 0 ? others : [...others.slice(0, before), ...letters, ...others.slice(before)];
      all.forEach((character, at) => add(character, codes[at], shift, false));
    });
  }
  for (const [code, character] of Object.entries(layout.altgr ?? {})) add(character, code, false, true);
  for (const [code, character] of Object.entries(layout.both ?? {})) add(character, code, true, true);
  addDeadKeys(keys, layout.dead ?? {});
  return keys;
}

// COMBINING are the combining characters that letters with the accents of dead keys decompose into.
const COMBINING = { "\u0301": "´", "\u0300": "`", "\u0302": "^", "\u0303": "~", "\u0308": "¨" };

// addDeadKeys adds the accents, each followed by a space, and the letters with them.
function addDeadKeys(keys, dead) {
  const accents = new Map();
  for (const [accent, name] of Object.entries(dead)) {
    const parts = name.split("+"), code = parts.pop();
    const stroke = { code, shift: parts.includes("Shift"), altgr: parts.includes("AltGr"), character: accent, dead: accent };
    accents.set(accent, stroke);
    if (!keys.has(accent)) keys.set(accent, [stroke, { code: "Space", shift: false, altgr: false, character: " " }]);
  }
  for (let code = 0xc0; code < 0x180; code++) {
    const character = String.fromCodePoint(code), parts = [...character.normalize("NFD")];
    const accent = accents.get(COMBINING[parts[1]]), base = keys.get(parts[0]);
    if (parts.length === 2 && accent && base && !keys.has(character)) keys.set(character, [accent, ...base]);
  }
}

const tables = new Map();

/** Returns the strokes that type a character in a layout, or undefined: the layout cannot type it. */
export function strokes(id, character) {
  const layout = LAYOUTS[id] ? id : "en-us";
  if (!tables.has(layout)) tables.set(layout, characterKeys(LAYOUTS[layout]));
  return tables.get(layout).get(character);
}

/** Returns the layout of the VM's keyboard setting, or else the one of the browser's languages. */
export function defaultLayout(setting, languages) {
  if (LAYOUTS[setting]) return setting;
  for (const language of languages) {
    const [main, region = ""] = language.toLowerCase().split("-");
    const found = [`${main}-${region}`, { en: "en-us", nb: "no", nn: "no" }[main] ?? main].find((id) => LAYOUTS[id]);
    if (found) return found;
  }
  return "en-us";
}
