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
   * poke(keys, or null for all) after a change; report("live" | "lost" | "signed-out") when the connection changes, with the ms since
   * the portal was heard where it is lost;
   * paced(seconds) when pokes for whole lists come this far apart from now on.
   */
  constructor(poke, report, paced = () => {}) {
    this.#poke = poke;
    this.#report = report;
    this.#paced = paced;
  }

  /** Follows these keys from now on, the first ones where there are too many. */
  follow(keys) {
    this.#keys = [...new Set(keys)].slice(0, MOST_KEYS);
    if (this.#keys.length === 0) return this.stop();
    if (this.#open && this.#keys.every((key) => this.#followed.has(key))) return;
    this.#schedule(OPEN_DELAY);
  }

  /** Tries again soon, as the portal answers; not all browsers at once. */
  retry() {
    if (this.#open || this.#opening || this.#keys.length === 0) return;
    this.#failures = 0;
    this.#schedule(FIRST_RETRY * Math.random());
  }

  /** For how many ms the portal was not heard. */
  quiet() {
    return performance.now() - this.#heard;
  }

  /** Whether a change of this key is being heard of now. */
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

  // The old stream stays open until the new one is accepted, so that no event is lost.
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

  // Changes before the stream covered a key are unknown, so new keys count as changed.
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
