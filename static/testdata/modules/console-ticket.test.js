import { is, settle, takeServer, test } from "./harness.js";
import { Refusal, SignedOut, ticket } from "js/console-ticket.js";

const asked = takeServer();

/** Returns the result of a response: the ticket, or the error's class and message. */
async function after(answer) {
  asked.length = 0;
  const got = ticket("/vms/1/console").catch((error) => [error.constructor.name, error.message]);
  await settle();
  answer(asked[0]);
  return got;
}

test("a ticket has the websocket's address on this portal and its subprotocols", async () => {
  is(await after((request) => request.answer(200, `{"url": "/console/7", "protocol": "qx.secret"}`)),
    { url: `ws://${location.host}/console/7`, protocols: ["binary", "qx.secret"] });
  is([asked[0].url, asked[0].method], ["/vms/1/console", "POST"]);
});

test("a refusal has the portal's sentence and is final", async () => {
  is(await after((request) => request.answer(409, "{}", { "X-Quantix-Message": "The%20VM%20is%20off." })), ["Refusal", "The VM is off."]);
  is(await after((request) => request.answer(403, `{"detail": "You may not."}`)), ["Refusal", "You may not."]);
  is((await after((request) => request.answer(404, "")))[0], "Refusal");
});

test("an ended session throws SignedOut", async () => {
  is((await after((request) => request.answer(401, "")))[0], "SignedOut");
  is(new SignedOut() instanceof Refusal, false);
});

test("a temporary error is not a refusal", async () => {
  is(await after((request) => request.answer(503, `{"title": "Busy."}`)), ["Error", "Busy."]);
  is((await after((request) => request.answer(429, "")))[0], "Error");
  is(await after((request) => request.fail()), ["Error", "The portal cannot be reached."]);
});
