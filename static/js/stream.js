// One event stream for a changing set of keys. Used by the shared worker, and by pages in browsers without one.
import { events, Refused } from "./sse.js";

const OPEN_DELAY = 300; // ms; several tabs that load together cause one stream
const SILENCE = 12_000; // ms; the server sends a ping every 5 s
const FIRST_RETRY = 1_000, LAST_RETRY = 30_000;
const MOST_KEYS = 170; // keeps the URL below the 8 KB limit of proxies

export class Stream {
  #poke; #report; #paced;
  #keys = [];
  #followed = new Set(); // keys that the open stream covers; empty when none is open
  #open = null; #opening = null; // AbortControllers
  #timer = 0; #failures = 0;
  #heard = performance.now();

  /**
   * The stream calls poke(keys) after changes of keys, or poke(null) if any key may have changed;
   * report("live" | "lost" | "signed-out") when the connection changes, for "lost" with the ms since the portal's last data;
   * and paced(seconds) when the interval between two events of a list changes.
   */
  constructor(poke, report, paced = () => {}) {
    this.#poke = poke;
    this.#report = report;
    this.#paced = paced;
  }

  /** Follows these keys from now on; of too many keys, only the first MOST_KEYS. */
  follow(keys) {
    this.#keys = [...new Set(keys)].slice(0, MOST_KEYS);
    if (this.#keys.length === 0) return this.stop();
    if (this.#open && this.#keys.every((key) => this.#followed.has(key))) return;
    this.#schedule(OPEN_DELAY);
  }

  /** Reconnects soon, because the portal answers. The random delay spreads the requests of all browsers. */
  retry() {
    if (this.#open || this.#opening || this.#keys.length === 0) return;
    this.#failures = 0;
    this.#schedule(FIRST_RETRY * Math.random());
  }

  /** Returns the ms since the last data from the portal. */
  quiet() {
    return performance.now() - this.#heard;
  }

  /** Whether the open stream covers this key. */
  covers(key) {
    return this.#followed.has(key);
  }

  stop() {
    clearTimeout(this.#timer);
    this.#opening?.abort();
    this.#open?.abort();
    this.#open = this.#opening = null;
    this.#followed = new Set();
  }

  #schedule(delay) {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#connect(), delay);
  }

  // The old stream stays open until the server has accepted the new one, so that no event is lost.
  async #connect() {
    const keys = this.#keys, control = new AbortController();
    this.#opening?.abort();
    this.#opening = control;
    let silence = 0;
    const alive = () => {
      clearTimeout(silence);
      silence = setTimeout(() => control.abort(), SILENCE);
    };
    let failure = null;
    try {
      alive();
      for await (const sign of events(address(keys), control.signal)) {
        alive();
        this.#heard = performance.now();
        if (sign === "open") this.#adopt(control, keys);
        else if (sign.event === "pace") this.#paced(Number(sign.data));
        else if (sign.event) this.#poke(sign.event === "resync" ? null : [sign.event]);
      }
    } catch (error) {
      failure = error;
    } finally {
      clearTimeout(silence);
    }
    if (control === this.#open || control === this.#opening) this.#lose(control, failure);
  }

  // A key may have changed before the stream covered it, so new keys count as changed.
  #adopt(control, keys) {
    const fresh = keys.filter((key) => !this.#followed.has(key));
    this.#open?.abort();
    this.#open = control;
    this.#opening = null;
    this.#followed = new Set(keys);
    this.#failures = 0;
    this.#report("live");
    if (fresh.length > 0) this.#poke(fresh);
  }

  #lose(control, failure) {
    if (control === this.#open) {
      this.#open = null;
      this.#followed = new Set();
    } else {
      this.#opening = null;
    }
    if (failure instanceof Refused && failure.status === 401) {
      this.stop();
      this.#report("signed-out");
      return;
    }
    if (!this.#open) this.#report("lost", this.quiet());
    const delay = Math.min(LAST_RETRY, FIRST_RETRY * 2 ** this.#failures++);
    this.#schedule(delay * (0.5 + Math.random() / 2));
  }
}

function address(keys) {
  return "/events?" + keys.map((key) => "key=" + encodeURIComponent(key).replaceAll("%3A", ":")).join("&");
}
