// Attributes that belong to the user, which a live refresh must not reset.

const ownAttributes = [
  [/^open$/, "details, dialog"],
  [/^checked$/, "[data-select-row]"],
  [/^(aria-expanded|tabindex)$/, "[role=treeitem]"],
  [/^tabindex$/, "[role=treeitem] a"],
];

/** An open menu, a level of the tree that refreshes itself, and anything marked data-keep stay as they are. */
function keepsNode(node, fresh) {
  if (!(node instanceof Element)) return false;
  if (node.matches("[data-keep], details.menu[open]")) return true;
  return node.matches("[data-lazy]") && node.childElementCount > 0 && fresh.childElementCount === 0;
}

/** A level below a row stays: the server draws none for a row that it does not know to be open, and the counts behind a row may lag. */
const isLevel = (node) => node instanceof Element && node.matches("[data-lazy]");

/** A tick belongs to the row's thing, not to its place in the table. */
function untick(box, fresh) {
  if (box instanceof HTMLInputElement && box.matches("[data-select-row]") && box.value !== fresh.value) box.checked = false;
}

if (window.Idiomorph) {
  Object.assign(Idiomorph.defaults, { ignoreActiveValue: true });
  Object.assign(Idiomorph.defaults.callbacks, {
    beforeNodeMorphed: (node, fresh) => {
      untick(node, fresh);
      return !keepsNode(node, fresh);
    },
    beforeNodeRemoved: (node) => !isLevel(node),
    beforeAttributeUpdated: (name, element) => !ownAttributes.some(([names, selector]) => names.test(name) && element.matches(selector)),
  });
}
