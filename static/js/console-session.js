// One console and its states: idle, connecting, connected, disconnected (reconnects automatically), failed and refused
// (the user must act).
import RFB from "../vendor/novnc/core/rfb.js";
import { Refusal, SignedOut, ticket } from "./console-ticket.js";

const MOST_TRIES = 5;
const FIRST_WAIT = 1_000; // ms; doubles with each attempt
const OPEN_LIMIT = 15_000; // ms from the ticket to the first picture
const REFUSED = 1008; // close code of the portal: a permission was lost, or somebody ended the session
const STEADY = 10_000; // ms; a connection that lasted this long resets the count of attempts

export class Session {
  rfb = null;
  id = ""; // of the portal's session: the last part of the websocket's address

  #screen; #ticketURL; #changed;
  #round = 0; // incremented at each start, to ignore callbacks of earlier connections
  #tries = 0; #timer = 0;

  /** The session calls changed(state, sentence, …) at each change of its state. */
  constructor(screen, ticketURL, changed) {
    this.#screen = screen;
    this.#ticketURL = ticketURL;
    this.#changed = changed;
  }

  /** Connects with a new ticket on the user's request, and resets the number of attempts. */
  start() {
    this.#tries = 0;
    return this.#connect();
  }

  stop(sentence = "Not connected.") {
    this.#drop();
    this.#changed("idle", sentence);
  }

  #drop() {
    this.#round++;
    clearTimeout(this.#timer);
    this.rfb?.disconnect();
    this.rfb = null;
  }

  async #connect() {
    this.#drop();
    const round = this.#round;
    this.#changed("connecting", this.#tries === 0 ? "Connecting…" : `Connecting, try ${this.#tries} of ${MOST_TRIES}…`);
    try {
      const { url, protocols } = await ticket(this.#ticketURL);
      if (round === this.#round) this.#open(round, url, protocols);
    } catch (error) {
      if (round !== this.#round) return;
      if (error instanceof SignedOut) this.#changed("refused", "You are signed out. Sign in again.", { signedOut: true });
      else if (error instanceof Refusal) this.#changed("refused", error.message);
      else this.#retry(error.message);
    }
  }

  #open(round, url, protocols) {
    let connectedAt = 0, reason = "The console was closed.", refused = false;
    const socket = new WebSocket(url, protocols);
    socket.addEventListener("close", (event) => { // before noVNC's listener, because noVNC does not pass the reason on
      refused = event.code === REFUSED;
      if (event.reason) reason = event.reason;
    });
    const rfb = new RFB(this.#screen, socket);
    this.rfb = rfb;
    this.id = url.split("/").at(-1);
    const listen = (name, handle) => rfb.addEventListener(name, (event) => { if (round === this.#round) handle(event); });
    this.#timer = setTimeout(() => {
      reason = "The host did not open the console in time.";
      rfb.disconnect();
    }, OPEN_LIMIT);
    listen("connect", () => {
      clearTimeout(this.#timer);
      connectedAt = performance.now();
      this.#changed("connected", "Connected.");
    });
    listen("credentialsrequired", () => this.#fail("The VM's display asks for a password, which the portal does not have."));
    listen("securityfailure", ({ detail }) => this.#fail(`The VM's display refused: ${detail.reason ?? "no reason given"}.`));
    listen("disconnect", ({ detail }) => {
      this.rfb = null;
      if (refused) {
        this.#fail(reason);
        return;
      }
      if (connectedAt && performance.now() - connectedAt > STEADY) this.#tries = 0;
      this.#retry(connectedAt && !detail.clean ? "The connection was lost." : reason);
    });
  }

  #fail(sentence) {
    this.#drop();
    this.#changed("failed", sentence);
  }

  #retry(sentence) {
    clearTimeout(this.#timer);
    if (++this.#tries > MOST_TRIES) {
      this.#changed("failed", `${sentence} ${MOST_TRIES} new tries did not help. Press Reconnect.`);
      return;
    }
    const wait = FIRST_WAIT * 2 ** (this.#tries - 1);
    this.#changed("disconnected", `Disconnected: ${sentence} Next try in ${wait / 1000} s.`);
    this.#timer = setTimeout(() => this.#connect(), wait);
  }
}
