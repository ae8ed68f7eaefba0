// What the tests of the browser's modules share: tests, a page to look at, a clock and a server that they hold in their hands.

const tests = [];
const { port1: here, port2: there } = new MessageChannel(); // a turn of the browser's loop, without a timer's delay

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

/** Fails unless both are the same as JSON. */
export function is(got, want, what = "got") {
  const [a, b] = [JSON.stringify(got), JSON.stringify(want)];
  if (a !== b) throw new Error(`${what} ${a}, want ${b}`);
}

/** Shows html as if htmx had brought it. */
export function page(html) {
  document.body.innerHTML = html;
  for (const type of ["htmx:afterSwap", "htmx:afterSettle"]) document.body.dispatchEvent(new CustomEvent(type, { bubbles: true, detail: {} }));
}

export const $ = (selector) => document.querySelector(selector);
export const $$ = (selector) => [...document.querySelectorAll(selector)];

/** Presses a key on an element; whether the page took it. */
export function press(element, key, more = {}) {
  return !element.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true, ...more }));
}

/** Lets the browser do what it has begun: promises, streams and events. */
export async function settle() {
  for (let i = 0; i < 10; i++) {
    await new Promise((done) => {
      here.onmessage = done;
      there.postMessage(null);
    });
  }
}

/** From here on time passes only by pass(ms), which also settles. To be taken before the modules are imported. */
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

/** Answers fetch from here on: the requests so far, each with accept(status), say(text), end(), fail(), and whether it was given up. */
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

/** Writes text into a field as its user does, the caret behind it or at caret. */
export function write(field, text, caret = text.length) {
  field.value = text;
  field.setSelectionRange(caret, caret);
  field.dispatchEvent(new InputEvent("input", { bubbles: true }));
}

/** Waits for an event on the document, or on an element. */
export const heard = (type, on = document) => new Promise((done) => { on.addEventListener(type, done, { once: true }); });
