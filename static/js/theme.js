// A classic script in <head> that sets theme and dock before the first paint, so that the page does not flicker.
(() => {
  const root = document.documentElement;
  let theme = null, dock = null, height = null;
  try {
    theme = localStorage.getItem("quantix.theme");
    dock = localStorage.getItem("quantix.dock");
    height = localStorage.getItem("quantix.dock-height");
  } catch { /* storage is disabled: use the system's theme and an open dock */ }
  if (theme === "light" || theme === "dark") root.dataset.theme = theme;
  if (dock === "closed" && innerWidth > 900) root.dataset.dock = "closed";
  if (/^\d+$/.test(height)) root.style.setProperty("--dock-body", `${height}px`);
})();
