// The console page: toolbar, messages and states around a Session. noVNC draws the picture into the screen element.
import { showBar } from "./bar.js";
import { combination, keyboardField, MOST_PASTED, setKey, type, untypable } from "./console-keys.js";
import { Session } from "./console-session.js";
import { defaultLayout, layouts } from "./keyboard-layouts.js";
import { recall, remember } from "./store.js";
import { toast } from "./toast.js";

const root = document.getElementById("console");
if (root) begin(root);

function begin(root) {
  const screen = root.querySelector("[data-console-screen]");
  const words = makeWords(screen);
  const session = new Session(screen, root.dataset.ticketUrl, changed);
  const tool = (name) => root.querySelectorAll(`[data-console="${name}"]`);
  let fit = true;

  function changed(state, reason, { signedOut = false } = {}) {
    root.dataset.state = state;
    root.dataset.reason = reason;
    root.querySelector("[data-console-status]").textContent = reason;
    words.text.textContent = reason;
    words.button.hidden = state === "connecting" || state === "connected";
    for (const name of ["cad", "keys", "hold", "paste", "keyboard"]) {
      for (const button of tool(name)) button.setAttribute("aria-disabled", String(state !== "connected"));
    }
    for (const button of tool("hold")) button.setAttribute("aria-pressed", "false"); // a new connection holds no key
    const own = document.getElementById("console-session");
    if (own && own.value !== session.id) {
      own.value = session.id;
      document.getElementById("console-people")?.dispatchEvent(new Event("poke"));
    }
    if (state === "connected") {
      session.rfb.background = "var(--screen)";
      scale();
      if (mayFocus(root)) session.rfb.focus({ preventScroll: true });
    }
    if (signedOut) showBar("signed-out");
    root.dispatchEvent(new CustomEvent("quantix:console", { bubbles: true, detail: { state, reason } }));
  }

  function scale() {
    for (const button of tool("scale")) button.setAttribute("aria-pressed", String(fit));
    if (!session.rfb) return;
    session.rfb.scaleViewport = fit;
    // a touch screen moves the clipped picture by dragging
    session.rfb.clipViewport = !fit && matchMedia("(pointer: coarse)").matches;
    session.rfb.dragViewport = session.rfb.clipViewport;
  }

  const layout = makeLayout(root);
  const keys = keyboardField(() => session.rfb, layout.get);
  screen.append(keys);
  const acts = {
    cad: () => {
      session.rfb?.sendCtrlAltDel();
      session.rfb?.focus(); // otherwise the next space bar would press the button again
    },
    keys: ({ dataset }) => {
      combination(session.rfb, dataset.keys.split(" "));
      session.rfb.focus();
    },
    hold: (button) => {
      const down = button.getAttribute("aria-pressed") !== "true";
      button.setAttribute("aria-pressed", String(down));
      setKey(session.rfb, button.dataset.keys, down);
      session.rfb.focus();
    },
    paste: () => askPaste(session, layout),
    keyboard: () => keys.focus(),
    scale: () => { fit = !fit; scale(); },
    fullscreen: () => document.fullscreenElement ? document.exitFullscreen() : root.requestFullscreen(),
    reconnect: () => session.start(),
  };
  root.addEventListener("click", async ({ target }) => {
    const button = target.closest("[data-console]");
    if (!button || button.getAttribute("aria-disabled") === "true") return;
    try {
      await acts[button.dataset.console]?.(button);
    } catch {
      toast("warn", "The browser does not allow this here.");
    }
  });
  leaveByKeys(screen, session, root);
  addEventListener("pagehide", () => session.stop());
  addEventListener("pageshow", ({ persisted }) => { if (persisted) session.start(); });
  if (root.dataset.autostart === "no") session.stop(root.dataset.reason);
  else session.start();
  whenItRuns(() => {
    if (["idle", "failed", "refused"].includes(root.dataset.state)) session.start();
  });
}

// When a VM starts while its console page is open, the live head of the page reports the state and the console connects.
function whenItRuns(begin) {
  const phase = () => document.getElementById("vm-head")?.dataset.screen ?? ""; // empty: no screen
  let before = phase();
  document.addEventListener("htmx:afterSettle", () => {
    const now = phase();
    if (now && now !== before) begin();
    before = now;
  });
}

// An automatic reconnect must not take the focus from the user.
function mayFocus(root) {
  const focused = document.activeElement;
  return !focused || focused === document.body || focused.id === "main" || root.contains(focused);
}

/** Returns the layer over the screen that shows why there is no picture. */
function makeWords(screen) {
  const layer = document.createElement("div");
  layer.className = "screen-words";
  const text = document.createElement("p");
  const button = document.createElement("button");
  button.type = "button";
  button.className = "btn";
  button.dataset.console = "reconnect";
  button.textContent = "Reconnect";
  layer.append(text, button);
  screen.append(layer);
  return { text, button };
}

// The guest gets every key, including Tab, so keyboard users leave the screen by Ctrl+Alt+Home.
function leaveByKeys(screen, session, root) {
  screen.addEventListener("keydown", (event) => {
    if (!(event.ctrlKey && event.altKey && event.key === "Home")) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    session.rfb?.sendKey(0xffe3, "ControlLeft", false);
    session.rfb?.sendKey(0xffe9, "AltLeft", false);
    root.querySelector("[role=toolbar] button, [role=toolbar] a")?.focus();
  }, { capture: true });
}

/** Returns the keyboard layout of the guest. A choice is kept in this browser for this VM. */
function makeLayout(root) {
  const name = `layout.${root.dataset.vm}`;
  return {
    get: () => defaultLayout(recall(name) ?? root.dataset.keyboard, navigator.languages),
    set: (id) => remember(name, id),
  };
}

let pasted = Promise.resolve(); // the end of the text that is being typed: the next one waits for it

function askPaste(session, layout) {
  const dialog = document.createElement("dialog");
  dialog.className = "dialog";
  dialog.setAttribute("aria-labelledby", "paste-title");
  dialog.innerHTML = `<form method="dialog"><header><h2 id="paste-title">Type text into the VM</h2></header>
    <div class="pad"><div class="field"><label for="paste-layout">Keyboard layout of the guest</label><select id="paste-layout"></select>
    <p class="hint">The layout that the guest's system is set to.</p></div>
    <div class="field"><label for="paste-text">Text</label><textarea id="paste-text" rows="5" maxlength="${MOST_PASTED}" spellcheck="false" autofocus></textarea>
    <p class="hint">The text is typed as keys. Nothing is stored.</p>
    <div class="error" role="status" data-untypable hidden><div><strong>This layout cannot type what is marked; it is left out.</strong><pre class="pasted"></pre></div></div></div></div>
    <footer><button class="btn" type="button" data-clipboard hidden>Insert clipboard</button><span class="spacer"></span><button class="btn" type="button" data-close>Cancel</button><button class="btn primary" value="type">Type text</button></footer></form>`;
  (document.fullscreenElement ?? document.body).append(dialog);
  const field = dialog.querySelector("textarea"), select = dialog.querySelector("select");
  select.append(...layouts.map(({ id, name }) => new Option(name, id)));
  select.value = layout.get();
  const show = () => mark(dialog, field.value, select.value);
  field.addEventListener("input", show);
  select.addEventListener("change", () => { layout.set(select.value); show(); });
  offerClipboard(dialog.querySelector("[data-clipboard]"), (text) => {
    field.setRangeText(text.slice(0, MOST_PASTED - field.value.length), field.selectionStart, field.selectionEnd, "end");
    field.focus();
    show();
  });
  dialog.addEventListener("close", () => {
    const not = untypable(field.value, select.value);
    const text = dialog.returnValue === "type" ? [...field.value].filter((character) => !not.includes(character)).join("") : "";
    const rfb = session.rfb;
    dialog.remove();
    rfb?.focus();
    if (text && rfb) pasted = pasted.then(() => type(rfb, text, select.value, () => session.rfb === rfb));
  });
  dialog.showModal();
}

/** Shows the button that reads the clipboard where the browser can. Reads at once if the user has allowed it before. */
async function offerClipboard(button, insert) {
  const clipboard = navigator.clipboard;
  if (!clipboard?.readText) return;
  const read = async () => {
    try {
      insert(await clipboard.readText());
    } catch {
      toast("warn", "The browser does not allow this here. Press Ctrl+V in the field.");
    }
  };
  button.hidden = false;
  button.addEventListener("click", read);
  try {
    if ((await navigator.permissions.query({ name: "clipboard-read" })).state === "granted") await read();
  } catch { /* the browser does not know this permission */ }
}

/** Shows the text with marks on the characters that cannot be typed, if there are any. */
function mark(dialog, text, layout) {
  const not = new Set(untypable(text, layout)), words = dialog.querySelector("[data-untypable]"), shown = dialog.querySelector(".pasted");
  words.hidden = not.size === 0;
  shown.replaceChildren();
  let plain = "";
  for (const character of not.size > 0 ? text : "") {
    if (!not.has(character)) {
      plain += character;
      continue;
    }
    const sign = document.createElement("mark");
    sign.textContent = character;
    shown.append(plain, sign);
    plain = "";
  }
  shown.append(plain);
}
