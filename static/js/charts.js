// Charts of metrics, on the pages that have some. This module imports no module of app.js, which would split the bundle of
// all pages into more files.
import uPlot from "../vendor/uplot/uPlot.esm.js";

const LIVE_PERIOD = 10_000; // ms between two refreshes of the range of an hour
const LIVE_RANGE = "1h";
const HEIGHT = 160; // CSS pixels of a chart without its legend
const COLORS = ["--accent", "--ok", "--warn", "--bad", "--unknown"]; // of the lines of a chart

/** Returns a new element with a class. */
function tag(name, className = "") {
  const element = document.createElement(name);
  element.className = className;
  return element;
}

const scaled = (units, base) => (v) => {
  let i = 0;
  while (Math.abs(v) >= base && i < units.length - 1) [v, i] = [v / base, i + 1];
  return `${v >= 100 || Number.isInteger(v) ? v.toFixed(0) : v >= 10 ? v.toFixed(1) : v.toFixed(2)} ${units[i]}`.trim();
};
const bytes = scaled(["B", "KiB", "MiB", "GiB", "TiB", "PiB"], 1024);
const plain = scaled(["", "k", "M", "G"], 1000);

/** Formats a value, by unit. */
const formats = {
  bytes,
  bytesPerSecond: (v) => `${bytes(v)}/s`,
  percent: (v) => `${v < 10 ? v.toFixed(1) : v.toFixed(0)} %`,
  perSecond: (v) => `${plain(v)}/s`,
  seconds: (v) => (v < 1e-3 ? `${(v * 1e6).toFixed(0)} µs` : v < 1 ? `${(v * 1e3).toFixed(1)} ms` : `${v.toFixed(1)} s`),
  celsius: (v) => `${v.toFixed(0)} °C`,
  watts: (v) => `${v.toFixed(0)} W`,
  number: plain,
  count: (v) => (Number.isInteger(v) ? `${v}` : v >= 100 ? v.toFixed(0) : v.toFixed(1)),
};

const formatOf = (unit) => formats[unit] ?? plain;
const titleOf = (line) => (line.hostName ? `${line.title} (${line.hostName})` : line.title);
const states = new WeakMap(); // section -> {plots, data, timer, marked}

function colors() {
  const style = getComputedStyle(document.documentElement);
  const probe = tag("span");
  document.body.append(probe);
  const resolve = (name) => {
    probe.style.color = style.getPropertyValue(name);
    return getComputedStyle(probe).color;
  };
  const out = { lines: COLORS.map(resolve), text: resolve("--muted"), grid: resolve("--line-soft") };
  probe.remove();
  return out;
}

const faded = (color) => color.replace(/^rgb\(([^)]*)\)$/, "rgba($1, 0.15)");

/** Returns the lines of one chart as uPlot's columns: the times, and mean, minimum and maximum of each line. */
function columns(lines) {
  const at = (i) => lines.map((line) => [1, 2, 3].map((k) => line.points.map((p) => p[k]))).flat();
  return [lines[0].points.map((p) => p[0]), ...at()];
}

/** Returns the label of a time on the axis, by the distance of the labels in seconds. */
function timeLabel(at, distance) {
  const time = new Date(at * 1000);
  if (distance >= 86_400) return time.toLocaleDateString([], { day: "numeric", month: "short" });
  return time.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
}

/** Steps between the labels of sizes: powers of two, so that the labels are round in KiB, MiB and so on. */
const byteSteps = Array.from({ length: 60 }, (_, i) => 2 ** i);

/** Formats the value of a legend: that under the cursor, or else the newest. */
const legendValue = (format) => (plot, v, i, at) => {
  const shown = at == null ? plot.data[i].findLast((x) => x != null) : v;
  return shown == null ? "–" : format(shown);
};

/** Returns the text of a mark. */
function markText(mark) {
  const state = { failed: "failed", unknown: "result unknown", cancelled: "cancelled", running: "running" }[mark.state];
  const from = new Date(mark.at).toLocaleString();
  const until = mark.until && !mark.taskId ? ` until ${new Date(mark.until).toLocaleString()}` : "";
  return `${mark.title}${state ? ` (${state})` : ""}, ${from}${until}`;
}

/** Returns the link to a mark's task, or a word for a period without a task. */
function markLink(mark) {
  const link = tag(mark.taskId ? "a" : "span");
  if (mark.taskId) link.href = `/tasks/${mark.taskId}`;
  return link;
}

/** Draws the marks as lines over a chart. The lines are for pointers; the list of events has the links for keyboards. */
function placeMarks(plot, marks) {
  const key = JSON.stringify(marks);
  if (plot.over.dataset.marks !== key) {
    plot.over.dataset.marks = key;
    for (const old of plot.over.querySelectorAll(".chart-mark")) old.remove();
    for (const mark of marks) {
      const line = markLink(mark);
      line.className = "chart-mark";
      line.tabIndex = -1;
      line.setAttribute("aria-hidden", "true");
      line.dataset.label = markText(mark);
      line.dataset.tone = !mark.taskId ? "period" : ["failed", "unknown"].includes(mark.state) ? "bad" : "";
      plot.over.append(line);
    }
  }
  const { min, max } = plot.scales.x;
  const width = plot.over.clientWidth;
  plot.over.querySelectorAll(".chart-mark").forEach((line, i) => {
    const from = Date.parse(marks[i].at) / 1000;
    const until = marks[i].taskId ? from : Date.parse(marks[i].until) / 1000;
    line.hidden = until < min || from > max;
    if (line.hidden) return;
    const left = plot.valToPos(Math.max(from, min), "x");
    line.style.left = `${left}px`;
    line.style.width = marks[i].taskId ? "" : `${Math.max(1, plot.valToPos(Math.min(until, max), "x") - left)}px`;
    line.classList.toggle("to-left", left > width / 2);
  });
}

/** Returns the list of the marks with links to their tasks. */
function events(marks) {
  const details = tag("details", "chart-events");
  const summary = tag("summary");
  summary.textContent = `Events (${marks.length})`;
  const list = tag("ul");
  for (const mark of marks.toReversed()) {
    const item = tag("li");
    const link = markLink(mark);
    link.textContent = markText(mark);
    item.append(link);
    list.append(item);
  }
  details.append(summary, list);
  return details;
}

function draw(box, lines, shades, marksOf) {
  const format = formatOf(lines[0].unit);
  const series = [{ label: "Time", value: (_, v, i, at) => (at == null || v == null ? "newest" : new Date(v * 1000).toLocaleString()) }];
  const bands = [];
  lines.forEach((line, i) => {
    const color = shades.lines[i % shades.lines.length];
    series.push({ label: titleOf(line), stroke: color, width: 1.5, dash: i < shades.lines.length ? [] : [6, 3], points: { show: false }, value: legendValue(format) });
    series.push({ show: true, stroke: "transparent", points: { show: false }, class: "chart-band" }, { show: true, stroke: "transparent", points: { show: false }, class: "chart-band" });
    bands.push({ series: [3 * i + 3, 3 * i + 2], fill: faded(color) });
  });
  const axis = { stroke: shades.text, grid: { stroke: shades.grid, width: 1 }, ticks: { stroke: shades.grid, width: 1 }, font: "11px system-ui" };
  return new uPlot({
    width: Math.max(200, box.clientWidth), height: HEIGHT, series, bands,
    padding: [8, 8, 0, 0],
    axes: [
      { ...axis, space: 70, values: (_, all, _axis, _space, distance) => all.map((at) => timeLabel(at, distance)) },
      { ...axis, size: 70, values: (_, all) => all.map(format), ...(lines[0].unit.startsWith("bytes") ? { incrs: byteSteps } : {}) },
    ],
    scales: { y: { range: (_, min, max) => [Math.min(0, min ?? 0), Math.max(max ?? 0, lines[0].unit === "percent" ? 10 : 1e-6) * 1.05] } },
    cursor: { sync: { key: "metrics" }, points: { size: 6 }, drag: { x: false, y: false } },
    legend: { live: true },
    hooks: { draw: [(plot) => placeMarks(plot, marksOf())] },
  }, columns(lines), box);
}

/** Returns the chart's values as a table, for screen readers and for copying. */
function table(title, lines, marksOf) {
  const details = tag("details");
  const summary = tag("summary");
  summary.textContent = "Values";
  details.append(summary);
  details.addEventListener("toggle", () => {
    details.querySelector(".chart-table")?.remove();
    if (!details.open) return;
    const format = formatOf(lines[0].unit);
    const frame = tag("div", "chart-table");
    frame.tabIndex = 0;
    frame.setAttribute("aria-label", `Values of the chart ${title}`);
    frame.setAttribute("role", "region");
    const grid = tag("table");
    const row = (name, cells) => {
      const tr = tag("tr");
      for (const text of cells) {
        const cell = tag(name);
        cell.append(...[text].flat());
        tr.append(cell);
      }
      grid.append(tr);
    };
    const marks = marksOf();
    const step = lines[0].points.length > 1 ? lines[0].points[1][0] - lines[0].points[0][0] : 1;
    const eventsAt = (at) => marks.filter((m) => Date.parse(m.at) / 1000 >= at && Date.parse(m.at) / 1000 < at + step).flatMap((mark) => {
      const link = markLink(mark);
      link.textContent = markText(mark);
      return [link, " "];
    });
    row("th", ["Time", ...lines.map(titleOf), ...(marks.length ? ["Events"] : [])]);
    for (let i = lines[0].points.length - 1; i >= 0; i--) {
      const found = eventsAt(lines[0].points[i][0]);
      if (found.length === 0 && lines.every((line) => line.points[i][1] == null)) continue;
      const values = lines.map((line) => (line.points[i][1] == null ? "–" : format(line.points[i][1])));
      row("td", [new Date(lines[0].points[i][0] * 1000).toLocaleString(), ...values, ...(marks.length ? [found] : [])]);
    }
    frame.append(grid);
    details.append(frame);
  });
  return details;
}

function charts(data) {
  const byTitle = new Map();
  for (const line of data.series) byTitle.set(line.chart, [...(byTitle.get(line.chart) ?? []), line]);
  return byTitle;
}

function show(section, data) {
  const grid = section.querySelector(".chart-grid");
  const state = states.get(section);
  state.data = data;
  const marksOf = () => state.data.marks ?? [];
  const shown = section.querySelector(".chart-events");
  if (shown?.dataset.marks !== JSON.stringify(marksOf())) {
    const list = events(marksOf());
    list.open = shown?.open ?? false;
    list.dataset.marks = JSON.stringify(marksOf());
    shown?.remove();
    if (marksOf().length > 0) grid.before(list);
  }
  const all = charts(data);
  const same = state.plots.size === all.size && [...all].every(([title, lines]) => state.plots.get(title)?.lines.length === lines.length);
  if (same) {
    for (const [title, lines] of all) {
      const chart = state.plots.get(title);
      chart.plot.setData(columns(lines));
      chart.lines.splice(0, lines.length, ...lines);
    }
    return;
  }
  clear(state);
  grid.replaceChildren();
  const shades = colors();
  for (const [title, lines] of all) {
    const box = tag("section", "chart");
    const head = tag("h2");
    head.textContent = title;
    box.setAttribute("aria-label", title);
    const canvas = tag("div");
    box.append(head, canvas, table(title, lines, marksOf));
    grid.append(box);
    state.plots.set(title, { box: canvas, lines, plot: draw(canvas, lines, shades, marksOf) });
  }
}

function clear(state) {
  for (const { plot } of state.plots.values()) plot.destroy();
  state.plots = new Map();
}

const announce = (section, text) => {
  const word = section.querySelector("[data-chart-state]");
  if (word.textContent !== text) word.textContent = text;
};

async function load(section) {
  const state = states.get(section);
  const { metrics, range } = section.dataset;
  clearTimeout(state.timer);
  try {
    const answer = await fetch(`${metrics}?range=${range}`, { headers: { Accept: "application/json" }, signal: AbortSignal.timeout(20_000) });
    if (!answer.ok) throw new Error(`HTTP ${answer.status}`);
    const data = await answer.json();
    if (section.dataset.range !== range || !section.isConnected) return;
    show(section, data);
    section.querySelector("[data-chart-csv]").disabled = data.series.length === 0;
    announce(section, data.problem ? `Values of this host were refused. ${data.problem}` : data.series.length === 0 ? "No values of this time. The first ones appear about 20 seconds after the start." : range === LIVE_RANGE ? "Live" : "");
  } catch {
    announce(section, "The values could not be read. The next try is in a few seconds.");
  }
  if (section.isConnected) state.timer = setTimeout(() => document.hidden ? wait(section) : load(section), range === LIVE_RANGE ? LIVE_PERIOD : 6 * LIVE_PERIOD);
}

/** Loads the values when the tab is visible again. */
function wait(section) {
  document.addEventListener("visibilitychange", () => section.isConnected && load(section), { once: true });
}

function download(section) {
  const { data } = states.get(section);
  const cell = (v) => (typeof v === "string" ? `"${v.replaceAll('"', '""')}"` : v ?? "");
  const rows = [["time", ...data.series.flatMap((l) => ["mean", "min", "max"].map((k) => `${l.hostName ? `${l.hostName} ` : ""}${l.name} ${k} (${l.unit})`))]];
  for (let i = 0; i < (data.series[0]?.points.length ?? 0); i++) {
    rows.push([new Date(data.series[0].points[i][0] * 1000).toISOString(), ...data.series.flatMap((l) => l.points[i].slice(1))]);
  }
  const link = tag("a");
  link.href = URL.createObjectURL(new Blob([rows.map((r) => r.map(cell).join(",")).join("\r\n")], { type: "text/csv" }));
  link.download = `${section.dataset.name}-${section.dataset.range}.csv`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

document.addEventListener("click", (event) => {
  const target = event.target instanceof Element ? event.target : null;
  const csv = target?.closest("[data-chart-csv]");
  if (csv) download(csv.closest(".charts"));
  const link = target?.closest("[data-chart-range]");
  if (!link || event.metaKey || event.ctrlKey || event.shiftKey) return;
  event.preventDefault();
  event.stopPropagation();
  const section = link.closest(".charts");
  section.dataset.range = link.dataset.chartRange;
  for (const each of section.querySelectorAll("[data-chart-range]")) each.toggleAttribute("aria-current", each === link);
  link.setAttribute("aria-current", "true");
  history.replaceState(history.state, "", link.href);
  announce(section, "Loading …");
  load(section);
}, { capture: true });

const sizes = new ResizeObserver(() => {
  for (const section of document.querySelectorAll(".charts")) {
    for (const { box, plot } of states.get(section)?.plots.values() ?? []) plot.setSize({ width: Math.max(200, box.clientWidth), height: HEIGHT });
  }
});

function redraw() {
  for (const section of document.querySelectorAll(".charts")) {
    const state = states.get(section);
    if (!state?.data) continue;
    clear(state);
    show(section, state.data);
  }
}
new MutationObserver(redraw).observe(document.documentElement, { attributeFilter: ["data-theme"] });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);

/** Starts the charts of the page that have not been started. */
function start() {
  for (const section of document.querySelectorAll("[data-metrics]")) {
    if (states.has(section)) continue;
    states.set(section, { plots: new Map(), data: null, timer: 0 });
    if (!document.querySelector(`link[href="${section.dataset.style}"]`)) {
      const sheet = tag("link");
      sheet.rel = "stylesheet";
      sheet.href = section.dataset.style;
      document.head.append(sheet);
    }
    sizes.observe(section);
    load(section);
  }
}

start();
document.addEventListener("htmx:afterSettle", start);
