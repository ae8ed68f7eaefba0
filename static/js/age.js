// Shows ages that count up ("12 s ago") and times in the user's time zone. Ages use the server's clock.
const renderedAt = Date.parse(document.documentElement.dataset.now ?? "");
let ahead = Number.isNaN(renderedAt) ? 0 : renderedAt - Date.now(); // server minus browser, ms

const units = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];

/** Formats whole seconds as "45 s", "6 min", "4 h" or "3 d". */
function span(seconds) {
  const [unit, size] = units.find(([, size]) => seconds >= size) ?? ["s", 1];
  return `${Math.floor(seconds / size)} ${unit}`;
}

/** Formats how long ago an event was. Ages below 10 s are within the time that a report takes. */
const ago = (seconds) => (seconds < 10 ? "just now" : `${span(seconds)} ago`);

function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function tick() {
  if (document.hidden) return;
  for (const element of document.querySelectorAll("time.age")) {
    const at = Date.parse(element.dateTime);
    if (Number.isNaN(at)) continue;
    const seconds = Math.max(0, (Date.now() + ahead - at) / 1000);
    const stale = element.dataset.fresh !== undefined && seconds > Number(element.dataset.fresh);
    const age = element.dataset.format === "short" ? span(seconds) : ago(seconds);
    const label = element.dataset.staleLabel;
    element.classList.toggle("stale", stale);
    write(element, stale && label ? `${label} · last seen ${span(seconds)} ago` : age);
    if (!element.title) element.title = new Date(at).toLocaleString();
  }
}

const formats = {
  time: { timeStyle: "medium" },
  date: { dateStyle: "medium" },
  datetime: { dateStyle: "medium", timeStyle: "medium" },
};

function localTimes() {
  for (const element of document.querySelectorAll("time.local")) {
    const at = new Date(element.dateTime);
    if (Number.isNaN(at.getTime())) continue;
    write(element, at.toLocaleString(undefined, formats[element.dataset.format] ?? formats.datetime));
    if (!element.title) element.title = at.toLocaleString();
  }
}

// Times in content from htmx are rewritten before the browser paints them. Otherwise columns would change their width at
// each refresh.
function rewrite() {
  tick();
  localTimes();
}

rewrite();
document.addEventListener("htmx:afterSwap", rewrite);
setInterval(tick, 1000);
document.addEventListener("visibilitychange", tick);

// Each response has the server's date in whole seconds, which corrects the difference between the clocks.
document.addEventListener("htmx:afterRequest", ({ detail }) => {
  const date = Date.parse(detail.xhr?.getResponseHeader("Date") ?? "");
  if (Math.abs(date - Date.now() - ahead) > 2000) ahead = date - Date.now();
});
