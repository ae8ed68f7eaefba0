import { $, $$, is, page, press, takeClock, takeServer, test, write } from "./harness.js";
import { takeSockets } from "./vnc.js";

const pass = takeClock(), asked = takeServer(), sockets = takeSockets();
console.error = console.warn = () => {};
page(`<div id="vm-head" data-screen="yes"></div><main id="main"><div id="console" data-ticket-url="/vms/1/console"><div role="toolbar">
  <button data-console="cad" aria-disabled="true">Keys</button><button data-console="paste" aria-disabled="true">Paste</button><button data-console="scale">Fit</button><button data-console="hold" data-keys="ControlLeft" aria-pressed="false">Hold Ctrl</button></div>
  <p data-console-status></p><div data-console-screen tabindex="0"></div></div></main><input id="elsewhere"><div id="toasts"></div>`);
await import("js/dialog.js");
await import("js/console.js");

const state = () => $("#console").dataset.state;
const off = () => $$('[role=toolbar] [aria-disabled="true"]').map((button) => button.dataset.console);
const sent = (socket) => socket.sent.splice(0);
const connect = async () => {
  await pass(0);
  await asked.at(-1).answer(200, `{"url": "/console/7", "protocol": "qx.secret"}`);
  sockets.at(-1).show();
  await pass(0);
};

test("the console connects automatically and then enables the buttons that need it", async () => {
  is([state(), off(), $(".screen-words button").hidden], ["connecting", ["cad", "paste", "hold"], true]);
  await connect();
  is([state(), off(), $("[data-console-status]").textContent], ["connected", [], "Connected."]);
  sent(sockets[0]);
  $("[data-console=cad]").click();
  is(sent(sockets[0]).filter((_, i) => i % 8 === 7).map((key) => key.toString(16)), ["e3", "e9", "ff", "ff", "e9", "e3"], "Ctrl+Alt+Del:");
});

test("a held key stays down until it is chosen again", () => {
  const hold = $("[data-console=hold]");
  const keys = () => sent(sockets[0]).filter((_, i) => i % 8 === 1 || i % 8 === 7).map((byte) => byte.toString(16)).join(" ");
  hold.click();
  is([keys(), hold.getAttribute("aria-pressed")], ["1 e3", "true"]);
  hold.click();
  is([keys(), hold.getAttribute("aria-pressed")], ["0 e3", "false"]);
});

test("Ctrl+Alt+Home leaves the screen, other keys go to the guest", () => {
  $("[data-console-screen]").focus();
  is(press($("[data-console-screen]"), "Home", { ctrlKey: true, altKey: true }), true);
  is(document.activeElement.dataset.console, "cad");
  is(press($("[data-console-screen]"), "Home"), false);
});

test("pasted text is typed unless cancelled; characters that a US keyboard cannot type are marked and omitted", async () => {
  for (const [button, text, marked, keys] of [["[data-close]", "hi", "", []], ["[value=type]", "hi", "", ["68", "68", "69", "69"]], ["[value=type]", "h€ié", "€é", ["68", "68", "69", "69"]]]) {
    $("[data-console=paste]").click();
    await pass(0);
    write($("#paste-text"), text);
    is([$("[data-untypable]").hidden, [...document.querySelectorAll(".pasted mark")].map((mark) => mark.textContent).join("")], [marked === "", marked]);
    sent(sockets[0]);
    $(`dialog ${button}`).click();
    await new Promise((done) => { const look = () => $("dialog") ? requestAnimationFrame(look) : done(); look(); });
    await pass(100);
    is(sent(sockets[0]).filter((_, i) => i % 8 === 7).map((key) => key.toString(16)), keys, button);
  }
});

test("an automatic reconnect does not take the focus", async () => {
  $("#elsewhere").focus();
  sockets[0].end();
  await pass(1_000);
  await connect();
  is([state(), document.activeElement.id], ["connected", "elsewhere"]);
});

test("a started VM gets its screen unless a connection is in progress", async () => {
  const now = (screen) => {
    $("#vm-head").dataset.screen = screen;
    document.body.dispatchEvent(new CustomEvent("htmx:afterSettle", { bubbles: true }));
  };
  now("");
  sockets.at(-1).end();
  await pass(2_000);
  await asked.at(-1).answer(409, `{"detail": "The VM is off."}`);
  is([state(), $(".screen-words").textContent, $(".screen-words button").hidden], ["refused", "The VM is off.Reconnect", false]);
  const before = asked.length;
  now("");
  is(asked.length, before, "while it is off: tickets");
  now("running");
  now("running");
  is([state(), asked.length], ["connecting", before + 1]);
});

test("an ended session shows the link to sign in", async () => {
  const before = asked.length;
  await asked.at(-1).answer(401, "");
  document.body.dispatchEvent(new CustomEvent("htmx:afterSettle", { bubbles: true }));
  is(asked.length, before, "tickets, though the VM still runs");
  is([state(), $("#page-bar").textContent], ["refused", "You are signed out. Sign in again"]);
});
