// Dynamic forms: repeated rows (disks, NICs), and parts that are shown only for one option.
import { on, onContent } from "./dom.js";

on("click", "[data-row-add]", (event, button) => {
  event.preventDefault(); // without scripts the same button requests a row from the server
  const part = button.closest("[data-row-list], fieldset, form");
  const template = part.querySelector("template[data-row-template]");
  const rows = part.querySelector("[data-rows]");
  let index = rows.childElementCount;
  // An index is also taken if a field of the row is elsewhere in the form, such as the image of the first disk.
  const taken = () => rows.querySelector(`[data-row="${index}"]`) ?? part.closest("form").querySelector(`[name^="${button.value}[${index}]."]`);
  while (taken()) index++;
  const holder = document.createElement("template");
  holder.innerHTML = template.innerHTML.replaceAll("__i__", String(index));
  const row = holder.content.firstElementChild;
  row.dataset.row = String(index);
  rows.append(row);
  window.htmx?.process(row); // activates the row's search fields
  row.querySelector("input, select")?.focus();
  rows.dispatchEvent(new Event("change", { bubbles: true }));
});

on("click", "[data-row-remove]", (event, button) => {
  event.preventDefault();
  const row = button.closest("[data-rows] > *");
  const next = (row.nextElementSibling ?? row.previousElementSibling)?.querySelector("input, select");
  (next ?? row.closest("[data-row-list], fieldset, form").querySelector("[data-row-add]"))?.focus();
  const rows = row.parentElement;
  row.remove();
  rows.dispatchEvent(new Event("change", { bubbles: true }));
});

// Enter in the search field of a select must not submit the form.
on("keydown", "[data-find]", (event) => {
  if (event.key === "Enter") event.preventDefault();
});

function showParts() {
  for (const part of document.querySelectorAll("[data-show-when]")) {
    const [name, values] = part.dataset.showWhen.split("=");
    const scope = part.closest("[data-rows] > *") ?? part.closest("form");
    const field = scope?.querySelector(`[name="${CSS.escape(name)}"]:is(select, :checked, [type=hidden])`);
    const shown = values.split("|").includes(field?.value ?? "");
    part.hidden = !shown;
    for (const input of part.querySelectorAll("input, select, textarea")) input.disabled = !shown;
  }
}

// The server's responses update headings with an ID; this updates the other headings.
on("change", "details.fold :is(input, select, textarea)", (_, field) => {
  const said = field.closest("details.fold").querySelector(":scope > summary > .muted:not([id])");
  if (said) said.textContent = "changed";
});

document.addEventListener("change", showParts);
onContent(showParts);

// The button that deletes an object with its data needs the typed name, which the server checks too. A hidden name field,
// as when disks are kept, is not required.
function confirmNames() {
  for (const input of document.querySelectorAll("[data-confirm-name]")) {
    const asked = getComputedStyle(input.closest(".if-delete") ?? input).display !== "none";
    input.form?.querySelector("button.danger")?.setAttribute("aria-disabled", String(asked && input.value.trim() !== input.dataset.confirmName));
  }
}

for (const type of ["input", "change"]) document.addEventListener(type, confirmNames);
onContent(confirmNames);

// When the user changes a field, its error disappears, because the error is about the previous value. So does the error
// of the field's row or list. Some settings have two fields of one name, such as a number and its unit.
function dropErrors({ target }) {
  if (!(target instanceof Element) || target.matches("form, [data-find]")) return;
  const own = target.name ? [...target.form?.querySelectorAll(`[name="${CSS.escape(target.name)}"]`) ?? []] : [];
  for (const field of [target, ...own].map((input) => input.closest(".field.bad")).filter(Boolean)) {
    field.classList.remove("bad");
    for (const input of field.querySelectorAll("[aria-invalid]")) {
      input.removeAttribute("aria-invalid");
      const rest = (input.getAttribute("aria-describedby") ?? "").split(" ").filter((id) => !id.endsWith("-error")).join(" ");
      if (rest) input.setAttribute("aria-describedby", rest); else input.removeAttribute("aria-describedby");
    }
    field.querySelector(":scope > .error")?.remove();
  }
  target.closest(".row-item")?.querySelectorAll(":scope > .error, :scope > .row-kept > .error").forEach((error) => error.remove());
  target.closest(".part-list")?.querySelectorAll(":scope > div > .error").forEach((error) => error.remove());
}

for (const type of ["input", "change"]) document.addEventListener(type, dropErrors);

// The server redraws only forms with rows.
onContent(() => {
  if (document.querySelector("[data-rows]")) import("./redraw.js");
});

// A form that is shown again with errors scrolls to the first error, and its summary is refreshed.
document.addEventListener("htmx:afterSettle", ({ target, detail }) => {
  if (detail.requestConfig?.verb !== "post") return;
  target.querySelector?.("[aria-invalid=true]")?.focus();
  if (target.id === "vm-form") target.dispatchEvent(new Event("change", { bubbles: true }));
});
