// A link to a run opens it; a link to an experiment opens its first run.
function openTarget() {
  const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  const details = target && (target.tagName === "DETAILS" ? target :
    target.matches(".experiment") && target.querySelector("details.run"));
  if (details) details.open = true;
}
addEventListener("hashchange", openTarget);
openTarget();

// The search leaves the experiments and runs that have every word; the order is within a dataset.
const orders = {
  A: (one, other) => (other.dataset.a ?? -1) - (one.dataset.a ?? -1),
  F: (one, other) => (one.dataset.f ?? 1e9) - (other.dataset.f ?? 1e9),
  name: (one, other) => one.dataset.name.localeCompare(other.dataset.name, "en", { numeric: true }),
};

function find() {
  const form = document.getElementById("find");
  if (!form) return;
  const words = form.elements.words.value.toLowerCase().split(/\s+/).filter(Boolean);
  for (const element of document.querySelectorAll("[data-words]"))
    element.hidden = !words.every((word) => element.dataset.words.includes(word));
  for (const body of document.querySelectorAll(".results tbody"))
    body.append(...[...body.rows].sort(orders[form.elements.order.value]));
  for (const part of document.querySelectorAll("[data-block]")) {
    const block = document.getElementById(part.dataset.block);
    part.hidden = !block.querySelector(".results tbody tr:not([hidden])");
  }
  const rows = [...document.querySelectorAll(".results tbody tr")];
  const found = rows.filter((row) => !row.hidden).length;
  form.elements.found.textContent =
    found === rows.length ? `${found} experiments` : `${found} of ${rows.length} experiments`;
}

const form = document.getElementById("find");
if (form) {
  form.addEventListener("input", find);
  form.addEventListener("submit", (event) => event.preventDefault());
  find();  // a browser may have kept what was typed
}

// A confusion matrix says in words what is in the cell under the pointer, or chosen by arrow keys.
const matrices = new WeakMap();

function matrixOf(target) {
  const element = target instanceof Element && target.closest(".cells");
  if (!element) return null;
  if (!matrices.has(element)) {
    const labels = JSON.parse(element.dataset.labels);
    const samples = labels.map(() => new Map()), totals = labels.map(() => 0);
    for (const [row, column, n] of JSON.parse(element.dataset.cells)) {
      samples[row].set(column, n);
      totals[row] += n;
    }
    const [left, top, width, height] = element.dataset.box.split(" ").map(Number);
    const cursor = element.appendChild(document.createElement("div"));
    cursor.className = "cursor";
    matrices.set(element, { element, labels, samples, totals, left, top, width, height, cursor, at: null });
  }
  return matrices.get(element);
}

function showCell(matrix, row, column) {
  const { labels, samples, totals, left, top, width, height, cursor } = matrix;
  const n = samples[row].get(column) ?? 0, total = totals[row];
  const share = total ? ` (${(100 * n / total).toFixed(1)} %)` : "";
  const what = row === column ? "right" : `taken for ${labels[column]}`;
  matrix.at = [row, column];
  matrix.element.parentElement.querySelector("output").textContent =
    `${labels[row]}: ${n} of ${total} ${what}${share}`;
  Object.assign(cursor.style, {
    left: `${100 * (left + width * column / labels.length)}%`, width: `${100 * width / labels.length}%`,
    top: `${100 * (top + height * row / labels.length)}%`, height: `${100 * height / labels.length}%`,
  });
}

function point(event) {
  const matrix = matrixOf(event.target);
  if (!matrix) return;
  const box = matrix.element.querySelector("svg").getBoundingClientRect();
  const across = ((event.clientX - box.left) / box.width - matrix.left) / matrix.width;
  const down = ((event.clientY - box.top) / box.height - matrix.top) / matrix.height;
  if (across < 0 || across >= 1 || down < 0 || down >= 1) return;
  showCell(matrix, Math.floor(down * matrix.labels.length), Math.floor(across * matrix.labels.length));
}
addEventListener("pointermove", point);
addEventListener("pointerdown", point);

addEventListener("keydown", (event) => {
  const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
  const matrix = step && matrixOf(event.target);
  if (!matrix) return;
  event.preventDefault();
  const inside = (n) => Math.min(Math.max(n, 0), matrix.labels.length - 1);
  const [row, column] = matrix.at ?? [-step[0], -step[1]];
  showCell(matrix, inside(row + step[0]), inside(column + step[1]));
});
