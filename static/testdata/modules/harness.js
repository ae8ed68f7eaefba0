// Shared by the tests of the browser's modules: test(), helpers for the page, and a clock and a server that the test
// controls.

const tests = [];
const { port1: here, port2: there } = new MessageChannel(); // a message is delivered in the next turn of the event loop, without a timer's delay

export const test = (name, body) => { tests.push([name, body]); };

export async function run() {
  const results = [];
  for (const [name, body] of tests) {
    let error = "";
    try { await body(); } catch (why) { error = why.stack ?? String(why); }
    results.push({ name, error });
  }
  return results;
}

/** Fails unless both values have the same JSON. */
export function is(got, want, what = "got") {
  const [a, b] = [JSON.stringify(got), JSON.stringify(want)];
  if (a !== b) throw new Error(`${what} ${a}, want ${b}`);
}

/** Sets the page's content to html and sends htmx's event for new content. */
export function page(html) {
  document.body.innerHTML = html;
  for (const type of ["htmx:afterSwap", "htmx:afterSettle"]) document.body.dispatchEvent(new CustomEvent(type, { bubbles: true, detail: {} }));
}

export const $ = (selector) => document.querySelector(selector);
export const $$ = (selector) => [...document.querySelectorAll(selector)];

/** Presses a key on an element. Returns whether the page handled the key. */
export function press(element, key, more = {}) {
  return !element.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true, ...more }));
}

/** Waits until pending promises, streams and events are done. */
export async function settle() {
  for (let i = 0; i < 10; i++) {
    await new Promise((done) => {
      here.onmessage = done;
      there.postMessage(null);
    });
  }
}

/** Replaces the timers: time passes only by pass(ms), which also settles. Call it before the modules are imported. */
export function takeClock() {
  let now = 1_000_000, serial = 0;
  const due = new Map(); // id -> {at, every, call}
  const set = (call, ms = 0, every = 0) => { due.set(++serial, { at: now + Math.max(0, ms), every, call }); return serial; };
  window.setTimeout = (call, ms) => set(call, ms);
  window.setInterval = (call, ms) => set(call, ms, ms);
  window.clearTimeout = window.clearInterval = (id) => due.delete(id);
  performance.now = Date.now = () => now;
  return async function pass(ms) {
    const end = now + ms;
    for (;;) {
      await settle();
      const next = [...due].filter(([, each]) => each.at <= end).sort((a, b) => a[1].at - b[1].at)[0];
      if (!next) break;
      const [id, each] = next;
      now = Math.max(now, each.at);
      if (each.every) each.at += each.every; else due.delete(id);
      each.call();
    }
    now = end;
    await settle();
  };
}

/**
 * Replaces fetch. Returns the list of requests, each with accept(status), say(text), end(), fail(), and whether the page
 * has aborted the request.
 */
export function takeServer() {
  const asked = [];
  window.fetch = (url, { signal, method = "GET" } = {}) => new Promise((resolve, reject) => {
    let out;
    const body = new ReadableStream({ start: (controller) => { out = controller; } });
    const request = {
      url: String(url), method, aborted: false,
      accept: (status = 200, headers = {}) => resolve(new Response(body, { status, headers })),
      say: (text) => out.enqueue(new TextEncoder().encode(text)),
      end: () => out.close(),
      fail: () => reject(new TypeError("Failed to fetch")),
      async answer(status, text, headers) {
        request.accept(status, headers);
        request.say(text);
        request.end();
        await settle();
      },
    };
    signal?.addEventListener("abort", () => {
      request.aborted = true;
      const why = new DOMException("given up", "AbortError");
      reject(why);
      try { out.error(why); } catch { /* it has ended */ }
    });
    asked.push(request);
  });
  return asked;
}

/** Types text into a field, with the caret at caret or else after the text. */
export function write(field, text, caret = text.length) {
  field.value = text;
  field.setSelectionRange(caret, caret);
  field.dispatchEvent(new InputEvent("input", { bubbles: true }));
}

/** Waits for an event on the document or an element. */
export const heard = (type, on = document) => new Promise((done) => { on.addEventListener(type, done, { once: true }); });
