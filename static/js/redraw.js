// A form that the server redraws keeps its open sections. Text that the user typed during the request is kept in fields
// that the server has not changed.
const fieldStates = (form) => {
  const states = new Map();
  for (const field of form.elements) {
    if (!field.name || !("value" in field)) continue;
    const sameName = form.elements.namedItem(field.name);
    const index = sameName instanceof RadioNodeList ? [...sameName].indexOf(field) : 0;
    states.set(`${field.name} ${index}`, { field, value: field.value, checked: field.checked });
  }
  return states;
};
const sameState = (a, b) => a.value === b.value && a.checked === b.checked;
const redrawn = new WeakMap();

document.addEventListener("htmx:beforeRequest", ({ detail }) => {
  if (detail.requestConfig.verb === "post" && detail.target instanceof HTMLFormElement) redrawn.set(detail.xhr, { form: detail.target, sent: fieldStates(detail.target) });
});

document.addEventListener("htmx:beforeSwap", ({ detail }) => {
  const request = redrawn.get(detail.xhr);
  if (request) request.focused = [...fieldStates(request.form)].find(([, state]) => state.field === document.activeElement)?.[0];
});

document.addEventListener("htmx:afterSwap", ({ detail }) => {
  const { form, sent, focused } = redrawn.get(detail.xhr) ?? {};
  const fresh = form && document.getElementById(form.id);
  if (!fresh || fresh === form) return;
  for (const section of form.querySelectorAll("details[id][open]")) fresh.querySelector(`#${CSS.escape(section.id)}`)?.setAttribute("open", "");
  const typed = fieldStates(form);
  for (const [key, now] of fieldStates(fresh)) {
    const [before, after] = [sent.get(key), typed.get(key)];
    if (!before || !after) continue;
    const changed = !sameState(before, after);
    if (changed && sameState(before, now)) {
      now.field.value = after.value;
      if ("checked" in now.field) now.field.checked = after.checked;
    }
    if (key !== focused) continue;
    now.field.focus();
    if (!changed) now.field.select?.(); // as by Tab: the next key replaces the text
  }
});
