import { $, is, page, test } from "./harness.js";

test("the current tab is scrolled into view", async () => {
  const tab = (n) => `<a href="#${n}" style="flex: none; width: 100px" ${n === 7 ? "aria-current=page" : ""}>Tab ${n}</a>`;
  page(`<nav class="tabs" style="display: flex; overflow: auto; width: 320px">${[0, 1, 2, 3, 4, 5, 6, 7, 8, 9].map(tab).join("")}</nav>`);
  await import("js/tabs.js");
  const bar = $("nav").getBoundingClientRect(), here = $("[aria-current]").getBoundingClientRect();
  is([here.left - bar.left, bar.right - here.right], [110, 110]);
});
