// Uploads the files that the user has selected on this page, by tus, and resumes at the offset that the host reports.
// Browsers forget selected files on a reload, so the user must select the file again to resume.
import { on, onContent } from "./dom.js";
import { sentence, toast } from "./toast.js";

const TRIES = [0, 500, 1000, 2000, 4000, ...Array(120).fill(8000)]; // ms before each retry; starts again after progress
const SAID = 400; // ms between two status messages about one upload

const chosen = new Map(); // fingerprint of a file -> File
const jobs = new Map(); // address of an upload -> {upload, state, words, done}

const nameOf = (file) => `${file.name.slice(0, 200)}/${file.size}/${file.lastModified}`;

let loading;
/** Loads the tus library when it is first needed. */
function library() {
  loading ??= new Promise((done, failed) => {
    const script = document.createElement("script");
    script.src = new URL("../vendor/tus/tus.min.js", import.meta.url);
    script.onload = () => done(window.tus);
    script.onerror = () => {
      loading = undefined;
      failed(new Error("The portal cannot be reached."));
    };
    document.head.append(script);
  });
  return loading;
}

const rowOf = (address) => document.querySelector(`[data-upload="${CSS.escape(address)}"]`);

function set(address, changes) {
  const job = jobs.get(address);
  if (!job) return;
  Object.assign(job, changes);
  const row = rowOf(address);
  if (row) draw(row);
}

function draw(row) {
  const job = jobs.get(row.dataset.upload);
  const part = (name) => row.querySelector(`[data-upload-${name}]`);
  part("again").hidden = Boolean(job);
  part("pause").hidden = job?.state !== "sending";
  part("continue").hidden = job?.state !== "paused";
  const progress = part("progress");
  progress.toggleAttribute("data-keep", Boolean(job));
  if (!job) return;
  progress.querySelector("progress").value = job.done;
  progress.querySelector("progress").classList.toggle("bad", job.state === "failed");
  part("words").textContent = job.words;
}

// Refreshes the list at once; the list polls otherwise.
const refresh = (element) => element?.closest("[data-live]")?.dispatchEvent(new CustomEvent("poke"));

const units = ["B", "KiB", "MiB", "GiB", "TiB"];
function bytes(n) {
  let unit = 0;
  for (; n >= 1024 && unit < units.length - 1; unit++) n /= 1024;
  return `${n.toFixed(unit && n < 100 ? 1 : 0)} ${units[unit]}`;
}

function left(seconds) {
  if (seconds < 90) return `${Math.ceil(seconds)} s left`;
  return seconds < 5400 ? `${Math.ceil(seconds / 60)} min left` : `${(seconds / 3600).toFixed(1)} h left`;
}

const statusOf = (error) => error.originalResponse?.getStatus() ?? 0;

// Whether to retry: a refusal by the portal or the host is final, but for a changed offset tus asks for the new one.
function again(error) {
  const status = statusOf(error);
  return status === 0 || status >= 500 || status === 423 || status === 429 || (status === 409 && !error.originalResponse.getHeader("X-Quantix-Message"));
}

function wordsOf(error) {
  const answer = error.originalResponse;
  if (!answer) return "The connection is lost.";
  if (answer.getStatus() === 401) return "You are signed out. Sign in again in another tab, then continue here.";
  return sentence(answer.getStatus(), answer.getHeader("X-Quantix-Message"), answer.getBody());
}

async function send(row, file) {
  const address = row.dataset.upload, name = row.dataset.name;
  jobs.set(address, { state: "sending", words: "Connecting …", done: row.querySelector("progress").value });
  draw(row);
  let began = null, said = 0;
  try {
    const tus = await library();
    const upload = new tus.Upload(file, {
      uploadUrl: new URL(address, location.href).href,
      retryDelays: TRIES,
      storeFingerprintForResuming: false,
      onShouldRetry(error) {
        began = null;
        if (again(error)) set(address, { words: `${wordsOf(error)} Trying again …` });
        return again(error);
      },
      onProgress(sent, total) {
        const now = performance.now();
        began ??= { at: now, sent };
        if (now - said < SAID && sent < total) return;
        said = now;
        const rate = (sent - began.sent) / Math.max(0.001, (now - began.at) / 1000);
        const pace = now - began.at > 1000 && rate > 0 ? `, ${bytes(rate)}/s, ${left((total - sent) / rate)}` : "";
        const words = sent < total ? `${bytes(sent)} of ${bytes(total)}${pace}` : "Upload complete. The host checks the file …";
        set(address, { done: (100 * sent) / total, words });
      },
      onSuccess() {
        set(address, { state: "done", done: 100, words: `Uploaded ${bytes(file.size)}` });
        toast("ok", `${name} is uploaded. Its size is ${bytes(file.size)}.`);
        refresh(rowOf(address));
      },
      onError(error) {
        const words = wordsOf(error), signedOut = statusOf(error) === 401;
        set(address, { state: again(error) || signedOut ? "paused" : "failed", words });
        toast("bad", `${name}: ${words}`);
        refresh(rowOf(address));
      },
    });
    set(address, { upload });
    upload.start();
  } catch (error) {
    toast("bad", `${name}: ${error.message}`);
    jobs.delete(address);
    if (rowOf(address)) draw(rowOf(address));
  }
}

function look() {
  for (const row of document.querySelectorAll("[data-upload]")) {
    const file = row.dataset.file && chosen.get(row.dataset.file);
    if (file && !jobs.has(row.dataset.upload)) send(row, file);
    else draw(row);
  }
  for (const [address, job] of jobs) {
    if (rowOf(address)) continue;
    if (job.state !== "done") job.upload?.abort();
    jobs.delete(address);
  }
}

on("change", "[data-upload-file]", (_, input) => {
  const file = input.files[0], form = input.form;
  const name = form.elements.name, before = form.dataset.guessed ?? "";
  form.querySelector("[data-upload-size]").value = file?.size ?? "";
  form.querySelector("[data-upload-name]").value = file ? nameOf(file) : "";
  if (!file) return;
  chosen.set(nameOf(file), file);
  if (name.value === before) name.value = form.dataset.guessed = file.name.replace(/[^A-Za-z0-9._-]+/g, "-").replace(/^[^A-Za-z0-9]+/, "");
});

on("change", "[data-upload-again] input", (_, input) => {
  const row = input.closest("[data-upload]"), file = input.files[0];
  input.value = "";
  if (!file) return;
  const { file: known, size } = row.dataset;
  if (known ? nameOf(file) !== known : file.size !== Number(size)) {
    toast("bad", `This is another file than the one whose upload began${known ? `: ${known.split("/")[0]}, unchanged since` : ""}. Choose that, or cancel the upload.`);
    return;
  }
  send(row, file);
});

on("click", "[data-upload-pause]", (_, button) => {
  const address = button.closest("[data-upload]").dataset.upload;
  jobs.get(address)?.upload?.abort();
  set(address, { state: "paused", words: "Paused. The host keeps the uploaded part for a day." });
});

on("click", "[data-upload-continue]", (_, button) => {
  const address = button.closest("[data-upload]").dataset.upload;
  set(address, { state: "sending", words: "Connecting …" });
  jobs.get(address)?.upload?.start();
});

document.addEventListener("htmx:afterRequest", ({ target, detail }) => {
  if (detail.successful && target.querySelector?.("[data-upload-file]")) refresh(document.querySelector("#pool-body > *, #import-files > *"));
});

addEventListener("beforeunload", (event) => {
  if ([...jobs.values()].some((job) => job.state === "sending")) event.preventDefault();
});

onContent(look);
