import { $, $$, is, page, press, test, write } from "./harness.js";
import "js/form.js";

test("a new row gets an unused index", () => {
  page(`<form><fieldset><div data-rows><div data-row="0"><input name="disks[0].size"></div><div data-row="1"><input name="disks[1].size"></div></div>
    <template data-row-template><div data-row="__i__"><input name="disks[__i__].size"><button data-row-remove>x</button></div></template>
    <button data-row-add>Add</button></fieldset></form>`);
  $("[data-row-add]").click();
  is([$$("[data-rows] input").at(-1).name, document.activeElement.name], ["disks[2].size", "disks[2].size"]);
  $('[data-row="0"]').remove();
  $("[data-row-add]").click();
  is($$("[data-rows] input").map((field) => field.name), ["disks[1].size", "disks[2].size", "disks[3].size"]);
  $('[data-row="3"] [data-row-remove]').click();
  is([$$("[data-rows] input").length, document.activeElement.name], [2, "disks[2].size"]);
});

test("a part of an unselected option is hidden and not sent", () => {
  page(`<form><select name="kind"><option>dir</option><option>nfs</option></select><div id="nfs" data-show-when="kind=nfs|cifs"><input name="server" value="s"></div></form>`);
  const sent = () => new FormData($("form")).get("server");
  is([$("#nfs").hidden, sent()], [true, null]);
  $("select").value = "nfs";
  $("select").dispatchEvent(new Event("change", { bubbles: true }));
  is([$("#nfs").hidden, sent()], [false, "s"]);
});

test("a search field works in a new row, and Enter in it does not submit the form", async () => {
  page(`<form hx-post="/vms" hx-target="this" hx-swap="outerHTML"><div data-rows></div><template data-row-template><div data-row="__i__">
    <input type="search" name="q" data-find hx-get="/choices/pools" hx-trigger="input" hx-target="#pool-__i__" hx-swap="innerHTML" hx-params="q"><select id="pool-__i__" name="pool"></select></div></template>
    <button data-row-add>Add</button></form>`);
  htmx.process(document.body);
  $("[data-row-add]").click();
  const asked = new Promise((done) => document.addEventListener("htmx:configRequest", (event) => {
    event.preventDefault();
    done({ path: event.detail.path, sent: Object.fromEntries(event.detail.formData), target: event.detail.target.id });
  }, { once: true }));
  const box = $("[data-find]");
  box.value = "nfs";
  box.dispatchEvent(new Event("input", { bubbles: true }));
  is(await asked, { path: "/choices/pools", sent: { q: "nfs" }, target: "pool-0" });
  is([press(box, "Enter"), press(box, "a")], [true, false]);
});

test("a field's error disappears when the user changes the field", () => {
  const bad = (name, inner) => `<div class="field bad" id="at-${name}">${inner}<p class="error" id="${name}-error">Wrong.</p></div>`;
  page(`<form>${bad("name", `<input name="name" aria-invalid="true" aria-describedby="name-hint name-error">`)}
    ${bad("memory", `<input name="memory" aria-invalid="true" aria-describedby="memory-error">`)}<div class="field"><select name="memory"><option>GiB</option><option>MiB</option></select></div>
    ${bad("pool", `<input data-find name="q"><select name="pool" aria-invalid="true"><option>a</option></select>`)}
    <div class="part-list"><div><p class="error">No row.</p></div><div data-rows><div class="row-item">${bad("size", `<input name="size">`)}<p class="error">This row.</p></div><div class="row-item"><p class="error">That row.</p></div></div></div></form>`);
  const errors = () => $$(".error").map((error) => error.id || error.textContent);
  write($("[data-find]"), "nfs");
  is(errors(), ["name-error", "memory-error", "pool-error", "No row.", "size-error", "This row.", "That row."], "a search for the value is no change:");
  write($("[name=name]"), "web-01");
  is([errors()[0], $("#at-name").className, $("[name=name]").hasAttribute("aria-invalid"), $("[name=name]").getAttribute("aria-describedby")], ["memory-error", "field", false, "name-hint"]);
  $("select[name=memory]").dispatchEvent(new Event("change", { bubbles: true }));
  is([errors()[0], $("input[name=memory]").hasAttribute("aria-describedby")], ["pool-error", false], "the unit is changed:");
  write($("[name=size]"), "20");
  is(errors(), ["pool-error", "That row."]);
});

test("the delete button is disabled until the required name is typed", () => {
  page(`<style>form:has([value=keep]:checked) .if-delete { display: none }</style><form><input type="radio" name="disks" value="keep" checked>
    <input type="radio" name="disks" value="delete"><div class="if-delete"><input id="name" data-confirm-name="web"></div><button class="danger">Delete</button></form>`);
  const can = () => $(".danger").getAttribute("aria-disabled") === "false";
  is(can(), true, "disks are kept:");
  $("[value=delete]").click();
  is(can(), false, "disks are deleted:");
  write($("#name"), "wet");
  is(can(), false, "another name:");
  write($("#name"), " web ");
  is(can(), true, "its name:");
});
