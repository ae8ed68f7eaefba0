// Requests a console ticket from the portal. A ticket is valid once, for 30 seconds, for this VM and this session.
import { sentence } from "./toast.js";

/** The portal's refusal of a ticket; a retry would be refused too. */
export class Refusal extends Error {}

/** The user's session has ended. */
export class SignedOut extends Error {}

/**
 * Returns {url, protocols} for the websocket.
 * Throws Refusal with the portal's sentence, SignedOut, or another Error if a retry may succeed.
 */
export async function ticket(address) {
  let answer;
  try {
    answer = await fetch(address, { method: "POST", headers: { Accept: "application/json" }, signal: AbortSignal.timeout(10_000) });
  } catch {
    throw new Error("The portal cannot be reached.");
  }
  if (answer.status === 401 || answer.redirected) throw new SignedOut();
  if (!answer.ok) {
    const words = sentence(answer.status, answer.headers.get("X-Quantix-Message"), await answer.text());
    throw answer.status >= 500 || answer.status === 429 ? new Error(words) : new Refusal(words);
  }
  const { url, protocol } = await answer.json();
  const socket = new URL(url, location.href);
  socket.protocol = location.protocol === "https:" ? "wss:" : "ws:";
  return { url: socket.href, protocols: ["binary", protocol] };
}
