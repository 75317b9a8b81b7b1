// The Sine view: a curve fitted to points that one drags, and the path that the parameters take.

import { Refused, oneAtATime, post } from "./api.js";
import { element, keepDrawn, legend } from "./chart.js";

const KEY = "eigen-reptile points";
const LAST = 32;
const X = [-5, 5];
const Y = [-6, 6];
const HEIGHT = 380;
const NAMES = { reptile: "Reptile", "eigen-reptile": "Eigen-Reptile" };
const KINDS = { reptile: "a", "eigen-reptile": "b" };
const STEP = 0.2; // of an arrow key

const state = { points: restored() ?? wave(2.6, 0.4), steps: 8, found: null };

const PAGE = `
  <div class="intro"><h1>How a few steps become a sine wave</h1>
    <p>Drag the ten points. Two networks, each trained to learn sine waves quickly, fit a curve to them in up to 32 small steps.</p></div>
  <section class="card" aria-labelledby="fit-title">
    <div class="bar"><h2 id="fit-title">The fitted curves</h2><div class="actions"><button id="new-wave">New wave</button><button id="wrong-point">One wrong point</button></div></div>
    <div class="slider"><button id="play-fit" class="small" aria-label="Play the steps">▶</button><input type="range" id="fit-steps" min="0" max="${LAST}" aria-label="Steps"><output id="fit-shown" for="fit-steps"></output></div>
    <div class="chart points" id="fit"></div>
    <div id="fit-legend"></div>
    <p class="notice" id="fit-notice" role="status"></p>
  </section>
  <section class="card" aria-labelledby="path-title">
    <h2 id="path-title">The path of the parameters</h2>
    <p class="hint">A network has thousands of numbers. Here you look at the two directions in which they move most; the straight line is the main direction.</p>
    <div class="planes"><div class="chart" id="plane-reptile"></div><div class="chart" id="plane-eigen-reptile"></div><div class="chart" id="plane-walk"></div></div>
    <table class="variance"><caption class="visually-hidden">Share of the movement along the two largest directions</caption>
      <thead><tr><th scope="col">Share of the movement</th><th scope="col">main direction</th><th scope="col">second</th></tr></thead><tbody></tbody></table>
    <p class="hint">A random walk also has a main direction, by chance. Learning usually follows its own much more closely, and that is what Eigen-Reptile uses.</p>
  </section>`;

export function startSine() {
  const view = document.getElementById("sine");
  view.innerHTML = PAGE;
  const $ = (id) => document.getElementById(id);
  $("fit-legend").append(legend(Object.entries(NAMES).map(([key, name]) => ({ name, kind: KINDS[key] }))));

  const fit = oneAtATime(async () => {
    try {
      state.found = await post("fit", { points: state.points });
      $("fit-notice").textContent = "";
    } catch (error) {
      $("fit-notice").textContent = error instanceof Refused ? error.message : "The server cannot be reached. Is it still running?";
    }
    showFit();
    showPaths();
  });

  function move(points) {
    state.points = points;
    localStorage.setItem(KEY, JSON.stringify(points));
    showFit();
    fit();
  }

  let timer = 0;
  const stop = () => { clearInterval(timer); timer = 0; $("play-fit").textContent = "▶"; };
  const go = (steps) => { state.steps = steps; showFit(); showPaths(); };
  $("fit-steps").addEventListener("input", () => { stop(); go(Number($("fit-steps").value)); });
  $("play-fit").addEventListener("click", () => {
    if (timer) return stop();
    if (state.steps >= LAST) go(0);
    $("play-fit").textContent = "❚❚";
    timer = setInterval(() => (state.steps >= LAST ? stop() : go(state.steps + 1)), 150);
  });
  $("new-wave").addEventListener("click", () => move(wave(0.8 + 4 * Math.random(), 2 * Math.PI * Math.random())));
  $("wrong-point").addEventListener("click", () => {
    const chosen = Math.floor(Math.random() * state.points.length);
    move(state.points.map(([x, y], i) => [x, i === chosen ? (y > 0 ? -5 : 5) : y]));
  });
  makeHandles($("fit"), move);
  keepDrawn($("fit"), showFit);
  keepDrawn($("plane-reptile"), showPaths);
  fit();
}

// The handles stay, so that one can be dragged while everything around it is drawn again.
function makeHandles(host, move) {
  const svg = element("svg", { height: HEIGHT, role: "group", "aria-label": "Ten points and two fitted curves" });
  svg.append(element("g", { class: "scene" }));
  state.points.forEach((_, i) => {
    const handle = element("circle", { r: 9, class: "handle", tabindex: 0, role: "slider", "aria-valuemin": Y[0], "aria-valuemax": Y[1], "aria-label": `Point ${i + 1}` });
    handle.addEventListener("pointerdown", (event) => handle.setPointerCapture(event.pointerId));
    handle.addEventListener("pointermove", (event) => {
      if (!handle.hasPointerCapture(event.pointerId)) return;
      const box = svg.getBoundingClientRect();
      move(changed(i, fromX((event.clientX - box.left) / box.width), fromY((event.clientY - box.top) / box.height)));
    });
    handle.addEventListener("keydown", (event) => {
      const moves = { ArrowLeft: [-STEP, 0], ArrowRight: [STEP, 0], ArrowUp: [0, STEP], ArrowDown: [0, -STEP] };
      if (!moves[event.key]) return;
      event.preventDefault();
      const [x, y] = state.points[i];
      move(changed(i, x + moves[event.key][0], y + moves[event.key][1]));
    });
    svg.append(handle);
  });
  host.append(svg);
}

function changed(i, x, y) {
  const inside = (value, [low, high]) => Math.round(100 * Math.min(high, Math.max(low, value))) / 100;
  return state.points.map((point, j) => (i === j ? [inside(x, X), inside(y, Y)] : point));
}

const fromX = (share) => X[0] + share * (X[1] - X[0]);
const fromY = (share) => Y[1] - share * (Y[1] - Y[0]);

function showFit() {
  const host = document.getElementById("fit");
  const svg = host.querySelector("svg");
  const width = host.clientWidth;
  document.getElementById("fit-steps").value = state.steps;
  document.getElementById("fit-shown").textContent = `${state.steps} step${state.steps === 1 ? "" : "s"}`;
  if (!width) return;
  svg.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
  const toX = (x) => ((x - X[0]) / (X[1] - X[0])) * width;
  const toY = (y) => ((Y[1] - y) / (Y[1] - Y[0])) * HEIGHT;
  const scene = svg.querySelector(".scene");
  scene.replaceChildren(...[-4, -2, 0, 2, 4].flatMap((value) => [
    element("line", { x1: 0, x2: width, y1: toY(value), y2: toY(value), class: "grid" }),
    element("text", { x: 4, y: toY(value) - 4 }, String(value)),
  ]));
  for (const [name, fitted] of Object.entries(state.found?.methods ?? {})) {
    const line = fitted.curves[state.steps].map((y, i) => `${toX(state.found.x[i]).toFixed(1)},${toY(Math.max(-20, Math.min(20, y))).toFixed(1)}`);
    scene.append(element("polyline", { points: line.join(" "), class: `line ${KINDS[name]}-line` }));
  }
  svg.querySelectorAll(".handle").forEach((handle, i) => {
    const [x, y] = state.points[i];
    handle.setAttribute("cx", toX(x));
    handle.setAttribute("cy", toY(y));
    handle.setAttribute("aria-valuenow", y);
    handle.setAttribute("aria-valuetext", `x ${x}, y ${y}`);
  });
}

function showPaths() {
  if (!state.found) return;
  for (const [name, fitted] of Object.entries(state.found.methods)) plane(document.getElementById(`plane-${name}`), NAMES[name], fitted.path, KINDS[name]);
  plane(document.getElementById("plane-walk"), "A random walk", state.found.methods.reptile.walk, "c");
  const rows = Object.entries(state.found.methods).map(([name, { spectrum }]) => [`${NAMES[name]}’s start`, spectrum]);
  rows.push(["a random walk", state.found.methods.reptile.walk_spectrum]);
  document.querySelector("#sine tbody").replaceChildren(...rows.map(([name, { first, second }]) => {
    const row = document.createElement("tr");
    const head = document.createElement("th");
    head.scope = "row";
    head.textContent = name;
    row.append(head, ...[first, second].map((share) => Object.assign(document.createElement("td"), { textContent: `${(100 * share).toFixed(1)} %` })));
    return row;
  }));
}

// Both axes have one scale, so that the picture shows how straight the path is.
function plane(host, title, path, kind) {
  const width = host.clientWidth;
  const height = 170;
  if (!width) return;
  const xs = path.map(([x]) => x);
  const ys = path.map(([, y]) => y);
  const middle = [xs, ys].map((values) => (Math.min(...values) + Math.max(...values)) / 2);
  const extent = Math.max(1e-9, Math.max(...xs) - Math.min(...xs), (Math.max(...ys) - Math.min(...ys)) * (width / (height - 30)));
  const scale = (0.86 * width) / extent;
  const at = ([x, y]) => [(x - middle[0]) * scale + width / 2, 22 + (height - 22) / 2 - (y - middle[1]) * scale];
  const svg = element("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": `Path of the parameters: ${title}` });
  const [, axis] = at([0, 0]);
  svg.append(element("text", { x: 0, y: 13, class: "title" }, title));
  svg.append(element("line", { x1: 0, x2: width, y1: axis, y2: axis, class: "now" }));
  svg.append(element("polyline", { points: path.map((point) => at(point).map((one) => one.toFixed(1)).join(",")).join(" "), class: `line ${kind}-line` }));
  path.forEach((point, i) => {
    const [cx, cy] = at(point);
    svg.append(element("circle", { cx, cy, r: i === state.steps ? 6 : 2.5, class: `${kind}-dot` }));
  });
  host.replaceChildren(svg);
}

function wave(amplitude, phase) {
  return Array.from({ length: 10 }, (_, i) => {
    const x = -4.5 + i;
    return [x, Math.round(100 * amplitude * Math.sin(x + phase)) / 100];
  });
}

function restored() {
  try {
    const points = JSON.parse(localStorage.getItem(KEY));
    return Array.isArray(points) && points.length === 10 && points.flat().every(Number.isFinite) ? points : null;
  } catch {
    return null;
  }
}
