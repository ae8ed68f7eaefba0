import { $, is, page, test } from "./harness.js";
import "js/redraw.js";

test("a redrawn form keeps the text typed after the request was sent", async () => {
  const form = (project, pool, ram) => `<form id="vm-form"><select name="project" hx-post="/vms" hx-trigger="change" hx-target="#vm-form" hx-swap="outerHTML" hx-include="#vm-form">
    <option>a</option><option${project === "b" ? " selected" : ""}>b</option></select><select name="pool"><option>one</option><option${pool === "two" ? " selected" : ""}>two</option></select>
    <input name="name" value=""><input name="ram" value="${ram}"><select name="ram"><option>MiB</option><option>GiB</option></select><input type="number" name="cpus" value="2"><details id="more"><summary>More</summary></details><input type="radio" name="boot" value="bios" checked><input type="radio" name="boot" value="efi"></form>`;
  page(form("a", "one", "2"));
  htmx.process(document.body);
  const real = window.XMLHttpRequest.prototype.send;
  const sent = new Promise((done) => {
    window.XMLHttpRequest.prototype.send = function () {
      done(this);
    };
  });
  $("[name=project]").value = "b";
  $("[name=project]").dispatchEvent(new Event("change", { bubbles: true }));
  const xhr = await sent;
  window.XMLHttpRequest.prototype.send = real;
  $("[name=name]").value = "web-1";
  $("input[name=ram]").value = "8";
  $("select[name=ram]").value = "GiB";
  $("details").open = true;
  $("[name=cpus]").focus();
  $("[value=efi]").checked = true;
  const swapped = new Promise((done) => document.addEventListener("htmx:afterSettle", done, { once: true }));
  Object.defineProperties(xhr, { status: { value: 200 }, response: { value: form("b", "two", "4") }, responseText: { value: form("b", "two", "4") } });
  xhr.onload();
  await swapped;
  is(["project", "pool", "name", "ram"].map((name) => $(`[name=${name}]`).value), ["b", "two", "web-1", "4"]);
  is(document.activeElement.name, "cpus");
  document.execCommand("insertText", false, "1");
  is($("[name=cpus]").value, "1");
  is([$("[value=efi]").checked, $("select[name=ram]").value, $("details").open], [true, "GiB", true]);
});
