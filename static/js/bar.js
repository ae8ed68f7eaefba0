// The bar above a page for states of the whole page. The worst one is shown: signed out before lost.

const words = {
  "signed-out": ["You are signed out. ", "Sign in again", () => `/sign-in?next=${encodeURIComponent(location.pathname + location.search)}`],
  gone: [],  // filled by showGone
  lost: ["Live updates are interrupted; trying again. What you see may be old. ", "Reload", () => location.href],
};
const active = new Set();

/** Shows the bar for "signed-out" or "lost". */
export function showBar(kind) {
  active.add(kind);
  draw();
}

/** Shows that what the page is about no longer exists, with the way to the list at href. */
export function showGone(sentence, href) {
  words.gone = [`${sentence} `, "Show the list", () => href];
  showBar("gone");
}

export function hideBar(kind) {
  if (active.delete(kind)) draw();
}

function draw() {
  document.getElementById("page-bar")?.remove();
  const kind = Object.keys(words).find((name) => active.has(name));
  if (!kind) return;
  const [sentence, act, href] = words[kind];
  const bar = document.createElement("div");
  bar.id = "page-bar";
  bar.className = "bar-note";
  bar.setAttribute("role", "status");
  const link = document.createElement("a");
  link.href = href();
  link.textContent = act;
  (document.getElementById("main") ?? document.body).prepend(bar);
  bar.append(sentence, link); // after it is in the page, so that it is read out
}
