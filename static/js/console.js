// The console page: toolbar, messages and states around a Session. noVNC draws the picture into the screen element.
import { showBar } from "./bar.js";
import { keyboardField, MOST_PASTED, type, untypable } from "./console-keys.js";
import { Session } from "./console-session.js";
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
    for (const name of ["cad", "paste", "keyboard"]) {
      for (const button of tool(name)) button.setAttribute("aria-disabled", String(state !== "connected"));
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

  const keys = keyboardField(() => session.rfb);
  screen.append(keys);
  const acts = {
    cad: () => {
      session.rfb?.sendCtrlAltDel();
      session.rfb?.focus(); // otherwise the next space bar would press the button again
    },
    paste: () => askPaste(session),
    keyboard: () => keys.focus(),
    scale: () => { fit = !fit; scale(); },
    fullscreen: () => document.fullscreenElement ? document.exitFullscreen() : root.requestFullscreen(),
    reconnect: () => session.start(),
  };
  root.addEventListener("click", async ({ target }) => {
    const button = target.closest("[data-console]");
    if (!button || button.getAttribute("aria-disabled") === "true") return;
    try {
      await acts[button.dataset.console]?.();
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

function askPaste(session) {
  const dialog = document.createElement("dialog");
  dialog.className = "dialog";
  dialog.setAttribute("aria-labelledby", "paste-title");
  dialog.innerHTML = `<form method="dialog"><header><h2 id="paste-title">Type text into the VM</h2></header>
    <div class="pad"><div class="field"><label for="paste-text">Text</label><textarea id="paste-text" rows="5" maxlength="${MOST_PASTED}" spellcheck="false"></textarea>
    <p class="hint">It is typed as keys of a US keyboard. Nothing is stored.</p>
    <div class="error" role="status" data-untypable hidden><div><strong>A US keyboard cannot type what is marked; it is left out.</strong><pre class="pasted"></pre></div></div></div></div>
    <footer><button class="btn" type="button" data-close>Cancel</button><button class="btn primary" value="type">Type text</button></footer></form>`;
  (document.fullscreenElement ?? document.body).append(dialog);
  const field = dialog.querySelector("textarea");
  field.addEventListener("input", () => mark(dialog, field.value));
  dialog.addEventListener("close", async () => {
    const text = dialog.returnValue === "type" ? [...field.value].filter((character) => untypable(character).length === 0).join("") : "";
    const rfb = session.rfb;
    dialog.remove();
    rfb?.focus();
    if (text && rfb) await type(rfb, text, () => session.rfb === rfb);
  });
  dialog.showModal();
}

/** Shows the text with marks on the characters that cannot be typed, if there are any. */
function mark(dialog, text) {
  const not = new Set(untypable(text)), words = dialog.querySelector("[data-untypable]"), shown = dialog.querySelector(".pasted");
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
