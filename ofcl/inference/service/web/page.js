// Drops files on the model and shows its answers. All that comes from elsewhere is set as text.
"use strict";
const $ = (id) => document.getElementById(id);
const SHOWN = 200;
let token = "", model = null, pictures = [];

async function ask(path, how = {}) {
  const headers = { ...how.headers, ...(token ? { Authorization: `Bearer ${token}` } : {}) };
  let answer;
  try {
    answer = await fetch(path, { ...how, headers });
  } catch {
    throw new Error("The service does not answer; is it still running?");
  }
  $("access").hidden = answer.status !== 401;
  const said = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Error(said.error ?? `The service answers with status ${answer.status}.`);
  return said;
}

async function guarded(work) {
  $("problem").textContent = "";
  $("state").textContent = "Asking …";
  try {
    await work();
  } catch (error) {
    $("problem").textContent = error.message;
  }
  $("state").textContent = "";
}

const PROMPTS = {
  text: ["Drop tables of texts here", "CSV, JSON lines or Parquet; or choose them", "One text"],
  table: ["Drop tables here", "CSV, JSON lines or Parquet; or choose them", "One row, with commas between its cells"],
  vector: ["Drop tables of vectors here", "JSON lines or Parquet; or choose them", "One vector, as numbers with commas"],
  image: ["Drop images here", "PNG, JPEG, TIFF, WebP, BMP or GIF; or choose them", ""],
};

async function describe() {
  model = await ask("/model");
  const learned = model.learned.data ? `, learned from ${model.learned.data}` : "";
  $("about").textContent = `${model.labels.length} labels${learned}. It takes ${model.takes}.`;
  const [what, kinds, prompt] = PROMPTS[model.samples.kind];
  $("what").textContent = what;
  $("kinds").textContent = kinds;
  $("written").hidden = !prompt;
  $("prompt").textContent = prompt;
  $("sample").placeholder = (model.samples.columns ?? []).join(", ");
  if (model.samples.kind === "image") $("files").accept = "image/*";
}

async function predictFiles(files) {
  if (!files.length) return;
  if (!model) await describe();
  const bytes = files.reduce((sum, file) => sum + file.size, 0);
  const most = model.limits.body_bytes;
  if (bytes > most) throw new Error(`${(bytes / 2 ** 20).toFixed(1)} MiB; at most ${(most / 2 ** 20).toFixed(1)} at once.`);
  const body = new FormData();
  for (const file of files) body.append("files", file);
  show(await ask("/predict?top=4", { method: "POST", body }), files);
}

async function predictWritten(text) {
  if (!model) await describe();
  const sample = written(text);
  const body = JSON.stringify({ samples: [sample] });
  show(await ask("/predict?top=4", { method: "POST", body, headers: { "Content-Type": "application/json" } }), []);
}

// A sample as somebody has written it: a text, numbers, or the cells of a row.
function written(text) {
  if (model.samples.kind === "text") return text;
  if (model.samples.codes?.length) return text.split(/[,;]/).map((part) => part.trim());
  return text.split(/[\s,;]+/).filter(Boolean).map(Number);
}

function cell(tag, name, ...content) {
  const made = document.createElement(tag);
  if (tag === "th") made.scope = "row";
  if (name) made.dataset.name = name;
  made.append(...content);
  return made;
}

function sampleCell(place, files) {
  const isImage = model.samples.kind === "image" && files[place];
  if (!isImage) return cell("th", "", `sample ${place + 1}`);
  const image = document.createElement("img");
  image.src = URL.createObjectURL(files[place]);
  image.alt = "";
  pictures.push(image.src);
  return cell("th", "", image, files[place].name);
}

const percent = (value) => value === null ? "–" : `${(100 * value).toFixed(1)} %`;

// The share of validation samples on which the uncertainty was larger.
function largerOn(uncertainty) {
  const curve = model.abstention.uncertainty;
  if (!curve || uncertainty === null) return null;
  const place = curve.thresholds.findIndex((threshold) => threshold >= uncertainty);
  return place < 0 ? 0 : 1 - (place ? curve.coverage[place - 1] : 0);
}

function row(answer, place, files) {
  const bar = document.createElement("progress");
  bar.max = 1;
  bar.value = answer.probability ?? 0;
  bar.setAttribute("aria-hidden", "true");
  const label = cell("td", "label", answer.label);
  label.className = "label";
  const unsure = cell("td", "uncertainty", answer.uncertainty === null ? "–" : answer.uncertainty.toPrecision(3));
  const share = largerOn(answer.uncertainty);
  if (share !== null) {
    const note = document.createElement("small");
    note.textContent = `less than on ${(100 * share).toFixed(0)} % of validation samples`;
    unsure.append(note);
  }
  const next = answer.top.slice(1).map((other) => `${other.label} ${percent(other.probability)}`);
  const made = document.createElement("tr");
  made.append(sampleCell(place, files), label, cell("td", "probability", percent(answer.probability), bar),
    unsure, cell("td", "next", next.join(", ") || "–"));
  return made;
}

function show(answers, files) {
  pictures.forEach(URL.revokeObjectURL);
  pictures = [];
  const first = answers.slice(0, SHOWN);
  document.querySelector("#answers tbody").replaceChildren(...first.map((answer, n) => row(answer, n, files)));
  const more = answers.length > SHOWN ? `; the first ${SHOWN} are shown` : "";
  $("counted").textContent = `${answers.length} ${answers.length === 1 ? "answer" : "answers"}${more}`;
  $("answers").hidden = false;
}

$("files").addEventListener("change", () => {
  const files = [...$("files").files];
  $("files").value = "";
  guarded(() => predictFiles(files));
});
$("written").addEventListener("submit", (event) => {
  event.preventDefault();
  guarded(() => predictWritten($("sample").value));
});
$("access").addEventListener("submit", (event) => {
  event.preventDefault();
  token = $("token").value.trim();
  guarded(describe);
});
for (const name of ["dragenter", "dragover"]) document.addEventListener(name, (event) => {
  event.preventDefault();
  $("drop").classList.add("over");
});
for (const name of ["dragleave", "drop"]) document.addEventListener(name, (event) => {
  event.preventDefault();
  $("drop").classList.remove("over");
});
document.addEventListener("drop", (event) => guarded(() => predictFiles([...event.dataTransfer.files])));

guarded(describe);
