import { $, $$, heard, is, page, test } from "./harness.js";

const root = new URL("../", import.meta.resolve("js/"));
for (const name of ["bundle/app.css", "bundle/vm.css", "bundle/help.css"]) {
  const sheet = document.createElement("link");
  sheet.rel = "stylesheet";
  sheet.href = new URL(name, root);
  const loaded = heard("load", sheet);
  document.head.append(sheet);
  await loaded;
}

const style = (element, part) => getComputedStyle(element, part);
const shade = (colour) => colour.match(/[\d.]+/g).slice(0, 3).map((value) => value / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
const light = (colour) => shade(colour).reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
const contrast = (a, b) => (Math.max(light(a), light(b)) + 0.05) / (Math.min(light(a), light(b)) + 0.05);

test("check boxes have a contrast of 3:1 in both themes, checked and unchecked", () => {
  for (const theme of ["light", "dark"]) {
    document.documentElement.dataset.theme = theme;
    page(`<div class="card"><input type="checkbox"><input type="checkbox" checked><input type="radio"><input type="radio" checked></div>`);
    const around = style($(".card")).backgroundColor;
    for (const box of $$("input")) {
      const own = style(box);
      is(contrast(own.borderColor, around) >= 3, true, `${theme}, ${box.type}, border ${own.borderColor} on ${around}:`);
      if (box.checked) is(contrast(style(box, "::before").backgroundColor, own.backgroundColor) >= 3, true, `${theme}, ${box.type}, tick on ${own.backgroundColor}:`);
    }
  }
  delete document.documentElement.dataset.theme;
});

test("a shadow at the edge of a table that is cut off follows the table's scrolling", () => {
  page(`<div class="card"><div class="table-wrap" style="width: 300px"><table><tbody><tr><td><div style="width: 500px">x</div></td><td class="acts">…</td></tr></tbody></table></div></div>`);
  const [shadow] = $("td.acts").getAnimations({ subtree: true }), wrap = $(".table-wrap");
  is([style(wrap).backgroundAttachment, shadow.effect.pseudoElement, shadow.timeline.source === wrap, shadow.timeline.axis], ["local, local, scroll, scroll", "::before", true, "inline"]);
  is(shadow.effect.getKeyframes().map(({ offset, opacity }) => [offset, opacity]), [[0, "1"], [0.98, "1"], [1, "0"]]);
});

test("the help of an open section is in the line of the section's heading, beside its badge", () => {
  page(`<form class="form"><details class="section fold" open><summary><b>Migration</b><span class="muted">off</span><span class="badge now">now</span></summary><a class="badge help">?</a><div class="fields"></div></details></form>`);
  const [badge, help] = [$(".now"), $(".help")].map((element) => element.getBoundingClientRect());
  is([Math.abs(help.top - badge.top) <= 2, help.left >= badge.right + 4], [true, true], `badge ${badge.top}…${badge.right}, help ${help.top}, ${help.left}:`);
});

test("a badge stays in one line", () => {
  page(`<div style="width: 40px"><div class="field"><label>Memory <span class="badge boot">next boot</span></label></div>
    <div class="field check"><label><input type="checkbox"> Nested virtualization <span class="badge off">power off first</span></label></div></div>`);
  is($$(".badge").map((badge) => badge.getBoundingClientRect().height), [18, 18]);
});

test("the top bar of the manual fits a phone", async () => {
  const search = `<form class="search"><svg class="i"></svg><input type="search" placeholder="Search name, address, MAC, UUID, label"><kbd>/</kbd></form>`;
  for (const [more, least] of [[search, 200], ["", 0]]) {
    const styles = ["bundle/app.css", "bundle/vm.css", "bundle/help.css"].map((name) => `<link rel="stylesheet" href="${new URL(name, root)}">`).join("");
    page(`<iframe width="360" height="400" style="border: 0" srcdoc='<!doctype html>${styles}<div class="app reader"><header class="top">
      <a class="mark"><svg class="logo"></svg><span>Quantix</span></a>${more}<span class="spacer"></span><a class="icon-btn">?</a><a class="pick"><svg class="i"></svg>${more ? `<span class="wide">mara</span>` : "Sign in"}</a></header></div>'></iframe>`);
    await heard("load", $("iframe"));
    const there = $("iframe").contentDocument, at = (selector) => there.querySelector(selector)?.getBoundingClientRect();
    is([there.documentElement.scrollWidth, at(".pick").right <= 352, (at(".search")?.width ?? 0) >= least, at(".mark span").width > 0], [360, true, true, !more], more ? "with a search:" : "without:");
  }
});
