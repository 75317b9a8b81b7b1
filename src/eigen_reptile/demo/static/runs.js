// The Runs view: metrics of trainings, live while they are written, one or two beside each other.

import { Refused, get } from "./api.js";
import { keepDrawn, legend, lineChart, rangeOf } from "./chart.js";

const SIDES = ["a", "b"];
const percent = (value) => `${Math.round(100 * value)} %`;
const short = (value) => (Math.abs(value) >= 100 ? value.toFixed(0) : String(Number(value.toPrecision(2))));
// Each chart: a title, the measures in it, and its range if that is known.
const CHARTS = [
  { title: "Validation score", kind: "validation", names: ["score"] },
  { title: "Explained variance ratio of the main direction", kind: "train", names: ["explained_variance_ratio"], y: [0, 1], format: percent },
  { title: "Cosine to Reptile’s direction", kind: "train", names: ["cosine_to_reptile"], y: [0, 1] },
  { title: "Samples kept by selection (dotted: wrong labels found)", kind: "train", names: ["kept", "recall"], y: [0, 1], format: percent },
  { title: "Length of the inner loop", kind: "train", names: ["length"] },
  { title: "Meta-loss", kind: "train", names: ["meta_loss"] },
];

const PAGE = `
  <div class="intro"><h1>Watch a training</h1><p>Choose one run, or two to compare them. A run that is still training is drawn as it goes.</p></div>
  <section class="card" aria-labelledby="runs-title"><div class="bar"><h2 id="runs-title">Runs</h2><button class="small" id="look-again">Look again</button></div>
    <p class="hint" id="runs-root"></p><ul class="runlist"></ul></section>
  <section class="card" aria-labelledby="charts-title"><h2 id="charts-title">Metrics</h2><div id="runs-legend"></div>
    <div class="charts"></div><div id="runs-examples"></div><p class="notice" id="runs-notice" role="status"></p></section>`;

const chosen = new Map(); // from the name of a run to its lines and the source of new ones

export function startRuns() {
  document.getElementById("runs").innerHTML = PAGE;
  document.getElementById("look-again").addEventListener("click", list);
  keepDrawn(document.querySelector("#runs .charts"), show);
  list();
}

async function list() {
  const notice = document.getElementById("runs-notice");
  try {
    const { root, runs } = await get("runs");
    document.getElementById("runs-root").textContent = root === null
      ? "Start the page with a folder of runs to see them here: eigen-reptile demo --runs FOLDER"
      : `${runs.length} run${runs.length === 1 ? "" : "s"} in ${root}`;
    document.querySelector(".runlist").replaceChildren(...runs.map(entry));
    if (!chosen.size && runs.length) document.querySelector(".runlist input").click();
  } catch (error) {
    notice.textContent = error instanceof Refused ? error.message : "The server cannot be reached. Is it still running?";
  }
  show();
}

function entry({ name, method, data, finished }) {
  const item = document.createElement("li");
  item.innerHTML = `<label><input type="checkbox"><b></b><small></small></label>`;
  item.querySelector("b").textContent = name;
  item.querySelector("small").textContent = `${method} on ${data}, ${finished ? "finished" : "not finished"}`;
  const box = item.querySelector("input");
  box.checked = chosen.has(name);
  box.addEventListener("change", () => (box.checked ? choose(name) : leave(name)));
  return item;
}

function choose(name) {
  if (chosen.size === SIDES.length) {
    leave(chosen.keys().next().value);
    for (const box of document.querySelectorAll(".runlist input")) box.checked = [...chosen.keys(), name].includes(box.nextSibling.textContent);
  }
  const source = new EventSource(`api/runs/live?run=${encodeURIComponent(name)}`);
  const run = { lines: [], source, example: [] };
  chosen.set(name, run);
  get(`runs/example?run=${encodeURIComponent(name)}`).then(({ classes }) => { run.example = classes; showExamples(); }, () => {});
  source.addEventListener("restart", () => { run.lines = []; });
  source.addEventListener("lines", (event) => {
    const { lines, finished } = JSON.parse(event.data);
    run.lines.push(...lines);
    if (finished && !lines.length) source.close();
    showSoon();
  });
  source.onopen = () => { run.lines = []; }; // a connection that was lost begins again with all lines
}

function leave(name) {
  chosen.get(name)?.source.close();
  chosen.delete(name);
  showExamples();
  showSoon();
}

// The test task that a finished run has stored: a support picture of each class, and its queries.
function showExamples() {
  const host = document.getElementById("runs-examples");
  host.replaceChildren(...[...chosen.entries()].filter(([, { example }]) => example.length).map(([name, { example }]) => {
    const place = document.createElement("section");
    place.innerHTML = `<h3></h3><p class="hint">A test task: the picture that each class was learnt from, then queries. A frame marks those it got wrong.</p><div class="task"></div>`;
    place.querySelector("h3").textContent = name;
    place.querySelector(".task").append(...example.map(({ support, queries }, i) => {
      const row = document.createElement("div");
      row.append(picture(support, `Class ${i + 1}`, "support"));
      row.append(...queries.map((query) => {
        const isRight = query.predicted === i;
        return picture(query.picture, `Query of class ${i + 1}, ${isRight ? "right" : `taken for ${query.predicted === null ? "nothing" : `class ${query.predicted + 1}`}`}`, isRight ? "" : "wrong");
      }));
      return row;
    }));
    return place;
  }));
}

function picture(source, alt, kind) {
  const image = document.createElement("img");
  Object.assign(image, { src: source, alt, title: alt, className: kind, width: 36, height: 36 });
  return image;
}

let frame = 0;
function showSoon() {
  frame ||= requestAnimationFrame(show);
}

function show() {
  frame = 0;
  const host = document.querySelector("#runs .charts");
  const runs = [...chosen.entries()];
  document.getElementById("runs-legend").replaceChildren(legend(runs.map(([name], i) => ({ name, kind: SIDES[i] }))));
  const style = getComputedStyle(host);
  const width = Number.parseFloat(style.gridTemplateColumns) || host.clientWidth;
  if (!width) return;
  const last = Math.max(1, ...runs.flatMap(([, { lines }]) => lines.map(({ step }) => step)));
  const charts = CHARTS.map((chart) => ({ ...chart, series: seriesOf(chart, runs) })).filter(({ series }) => series.length);
  host.replaceChildren(...charts.map(({ title, series, y, format }) => {
    const place = document.createElement("div");
    place.className = "chart";
    const values = series.flatMap(({ points }) => points.map(([, value]) => value));
    const range = y ?? (values.every((value) => value >= 0 && value <= 1) ? [0, 1] : rangeOf(values));
    place.append(lineChart({ width, height: 200, title, series, x: [0, last], y: range, format: format ?? short, formatX: (value) => (value ? `${value} iterations` : "0") }));
    return place;
  }));
  if (!runs.length) host.replaceChildren(Object.assign(document.createElement("p"), { className: "hint", textContent: "No run is chosen." }));
}

function seriesOf({ kind, names }, runs) {
  return runs.flatMap(([, { lines }], i) => names.map((name, number) => ({
    kind: SIDES[i],
    dashed: number > 0,
    points: lines.filter((line) => line.kind === kind && name in line).map((line) => [line.step, line[name]]),
  }))).filter(({ points }) => points.length);
}
