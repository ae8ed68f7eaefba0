// A VNC server that the test controls, connected to the websockets that the page opens.

const text = (s) => [...new TextEncoder().encode(s)];

export class Socket {
  static all = [];
  binaryType = ""; protocol = ""; readyState = 0;
  onerror = null; onmessage = null; onopen = null;
  sent = [];
  #closing = []; // listeners of the event "close", in the order in which they were added

  addEventListener(name, listen) { if (name === "close") this.#closing.push(listen); }
  get onclose() { return null; }
  set onclose(listen) { this.#closing.push(listen); }

  constructor(url, protocols) {
    Object.assign(this, { url, protocols });
    Socket.all.push(this);
  }

  send(data) { this.sent.push(...data); }
  close() { this.end(); }

  say(bytes) { this.onmessage({ data: Uint8Array.from(bytes).buffer }); }

  open() {
    this.readyState = 1;
    this.onopen({});
    this.say(text("RFB 003.008\n"));
  }

  /** Offers a security type: 1 is none, 2 requires a password. */
  secure(type) { this.say([1, type]); }

  /** Sends a screen of 4 × 4 pixels. */
  show() {
    this.open();
    this.secure(1);
    this.say([0, 0, 0, 0]);
    this.say([0, 4, 0, 4, 32, 24, 0, 1, 0, 255, 0, 255, 0, 255, 16, 8, 0, 0, 0, 0, 0, 0, 0, 2, ...text("vm")]);
  }

  refuse(why) {
    this.open();
    this.secure(1);
    this.say([0, 0, 0, 1, 0, 0, 0, why.length, ...text(why)]);
  }

  end(code = 1000, reason = "") {
    if (this.readyState === 3) return;
    this.readyState = 3;
    for (const listen of this.#closing) listen?.({ code, reason });
  }
}

/** Replaces WebSocket, so that the page's websockets connect to the test. */
export function takeSockets() {
  window.WebSocket = Object.assign(Socket, { CONNECTING: 0, OPEN: 1, CLOSING: 2, CLOSED: 3 });
  return Socket.all;
}
