// Keeps the state that the user has set (open, checked, focused, …) when a live refresh updates the page.

const ownAttributes = [
  [/^open$/, "details, dialog"],
  [/^checked$/, "[data-select-row]"],
  [/^(aria-expanded|tabindex)$/, "[role=treeitem]"],
  [/^tabindex$/, "[role=treeitem] a"],
];

/** Whether a refresh must not change the node: open menus, loaded levels of the tree, and elements with data-keep. */
function keepsNode(node, fresh) {
  if (!(node instanceof Element)) return false;
  if (node.matches("[data-keep], details.menu[open]")) return true;
  return node.matches("[data-lazy]") && node.childElementCount > 0 && fresh.childElementCount === 0;
}

/**
 * Whether the node is a level of the tree, which a refresh must not remove: the server renders no level for rows that
 * the user opened, and its counts of children may be outdated.
 */
const isLevel = (node) => node instanceof Element && node.matches("[data-lazy]");

/** Clears the selection of a row when the row shows another object after the refresh. */
function untick(box, fresh) {
  if (box instanceof HTMLInputElement && box.matches("[data-select-row]") && box.value !== fresh.value) box.checked = false;
}

/**
 * Idiomorph does not look into the focused element, because of the text that a user may be typing. The words of a focused
 * button or link must change with what it does.
 */
function rewordFocused(node, fresh) {
  if (node !== document.activeElement || !node.matches("button, a, summary") || node.innerHTML === fresh.innerHTML) return;
  node.replaceChildren(...[...fresh.childNodes].map((child) => child.cloneNode(true)));
}

if (window.Idiomorph) {
  Object.assign(Idiomorph.defaults, { ignoreActiveValue: true });
  Object.assign(Idiomorph.defaults.callbacks, {
    beforeNodeMorphed: (node, fresh) => {
      untick(node, fresh);
      rewordFocused(node, fresh);
      return !keepsNode(node, fresh);
    },
    beforeNodeRemoved: (node) => !isLevel(node),
    beforeAttributeUpdated: (name, element) => !ownAttributes.some(([names, selector]) => names.test(name) && element.matches(selector)),
  });
}
