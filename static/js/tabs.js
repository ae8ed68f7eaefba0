// Tabs scroll sideways on a narrow screen. A page begins with its current tab in view.
for (const tab of document.querySelectorAll(".tabs [aria-current]")) {
  const bar = tab.parentElement, box = tab.getBoundingClientRect(), around = bar.getBoundingClientRect();
  bar.scrollLeft += box.left + box.width / 2 - around.left - around.width / 2;
}
