// Small helpers shared by the modules. Listeners are attached to the document, so content from htmx needs no set-up.

/** Calls handle(event, element) for events of this type on, or inside, an element that matches the selector. */
export function on(type, selector, handle, options) {
  document.addEventListener(type, (event) => {
    const element = event.target instanceof Element ? event.target.closest(selector) : null;
    if (element) handle(event, element);
  }, options);
}

/** Calls handle() now and after each change that htmx made to the page. */
export function onContent(handle) {
  handle();
  document.addEventListener("htmx:afterSettle", handle);
}

/** Whether target handles key presses itself, so that the page's shortcuts must not: a field, or the console. */
export function isTyping(target) {
  return target instanceof Element && target.closest("input:not([type=checkbox], [type=radio]), textarea, select, [contenteditable], #console") !== null;
}

/** Moves focus by step through the elements, wrapping at the ends. */
export function moveFocus(elements, step) {
  if (elements.length === 0) return;
  const at = elements.indexOf(document.activeElement);
  const next = at < 0 ? (step > 0 ? 0 : elements.length - 1) : (at + step + elements.length) % elements.length;
  elements[next].focus();
}

/** Returns a new element with a class. */
export function tag(name, className = "") {
  const element = document.createElement(name);
  element.className = className;
  return element;
}

/** Returns a new button with a text that submits no form. */
export function button(className, word) {
  const element = tag("button", className);
  element.type = "button";
  element.textContent = word;
  return element;
}
