// Shows states as unknown while the portal does not respond, as for an offline host.

const WORD = "Unknown";
const drawn = new Map(); // element -> its former content

function keep(element) {
  drawn.set(element, { html: element.innerHTML, className: element.getAttribute("class"), title: element.getAttribute("title") });
}

/** Shows each state of the page as unknown. This sets texts and icons; the style sheet sets the colours. */
export function drawUnknown() {
  if (drawn.size > 0) return;
  document.documentElement.dataset.portal = "silent";
  for (const chip of document.querySelectorAll(".chip")) {
    keep(chip);
    const icon = chip.querySelector("use");
    chip.title = `Last known: ${chip.textContent.trim()}`;
    chip.className = "chip unknown";
    for (const node of [...chip.childNodes]) if (node.nodeType === Node.TEXT_NODE) node.remove();
    icon?.setAttribute("href", icon.getAttribute("href").replace(/#.*/, "#circle-question-mark"));
    icon?.closest("svg").setAttribute("class", "i unknown");
    chip.append(WORD);
  }
  for (const state of document.querySelectorAll("[data-state]:not(.chip, #console)")) {
    keep(state);
    state.title = `Last known: ${state.textContent.trim().replace(/\s+/g, " ")}`;
    state.textContent = WORD;
  }
  for (const word of document.querySelectorAll(".tree .row .vh")) {
    const icon = word.parentElement.querySelector("svg");
    keep(word);
    word.textContent = ", unknown";
    if (!icon) continue;
    keep(icon);
    icon.setAttribute("class", "i unknown");
  }
}

/** Restores the states that were shown before. The page is refreshed afterwards. */
export function drawKnown() {
  delete document.documentElement.dataset.portal;
  for (const [element, { html, className, title }] of drawn) {
    element.innerHTML = html;
    for (const [name, value] of [["class", className], ["title", title]]) {
      if (value === null) element.removeAttribute(name);
      else element.setAttribute(name, value);
    }
  }
  drawn.clear();
}
