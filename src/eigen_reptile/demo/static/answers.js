// What the two methods say: about the test drawing, about all tests, and how they came to it.

import { keepDrawn, lineChart, rangeOf } from "./chart.js";
import { DRAWINGS } from "./lesson.js";
import { paintExample } from "./raster.js";

const SPOKEN_AFTER = 900; // milliseconds without a new answer, so that a screen reader is not interrupted at every stroke
let timer = 0;

export function showAnswers(view, lesson, found) {
  const sentences = [];
  for (const side of view.querySelectorAll(".side")) {
    const method = lesson.methods[Number(side.dataset.side)];
    side.querySelector("select").value = method;
    side.querySelector(".about").textContent = lesson.kind.methods[method].about;
    const row = found.answers?.methods[method]?.[0];
    const classes = found.answers?.classes ?? lesson.taught;
    const list = side.querySelector(".answer");
    const shown = classes.length ? classes : lesson.classes;
    if (list.children.length !== shown.length) list.replaceChildren(...shown.map(makeBar));
    const best = row ? row.indexOf(Math.max(...row)) : -1;
    shown.forEach((one, i) => fillBar(list.children[i], lesson.nameOf(one.id), row?.[i], i === best));
    if (row) sentences.push(`${lesson.kind.methods[method].name}: ${lesson.nameOf(shown[best].id)}, ${Math.round(100 * row[best])} percent`);
  }
  clearTimeout(timer);
  timer = setTimeout(() => { view.querySelector(".spoken").textContent = sentences.join(". "); }, SPOKEN_AFTER);
}

function makeBar() {
  const item = document.createElement("li");
  item.innerHTML = "<i></i><span></span><b></b>";
  return item;
}

function fillBar(item, name, probability, isBest) {
  item.classList.toggle("best", isBest);
  item.querySelector("span").textContent = name;
  item.querySelector("b").textContent = probability === undefined ? "–" : `${Math.round(100 * probability)} %`;
  item.querySelector("i").style.transform = `scaleX(${probability ?? 0})`;
}

export function showTests(lesson, found) {
  const host = document.getElementById("tests");
  document.getElementById("clear-tests").hidden = !lesson.tests.length;
  if (!lesson.tests.length) {
    const nothing = document.createElement("p");
    nothing.className = "hint";
    nothing.textContent = "Draw tests and say what they were: then you see who is right more often, also after a label was changed.";
    host.replaceChildren(nothing);
  } else {
    host.replaceChildren(...lesson.tests.map((one) => tried(lesson, one, found.tests?.get(one.id))));
  }
  for (const side of document.querySelectorAll("#draw .side")) {
    const number = Number(side.dataset.side);
    const marks = lesson.tests.map((one) => found.tests?.get(one.id)?.[number]).filter((mark) => mark !== undefined);
    const right = marks.filter(Boolean).length;
    side.querySelector(".score").textContent = marks.length ? `${right} of ${marks.length} tests right` : "";
  }
}

function tried(lesson, test, marks) {
  const made = document.createElement("div");
  made.className = "tried";
  made.innerHTML = `<canvas width="40" height="40"></canvas><div class="marks"><span></span><span></span></div>`;
  const canvas = made.querySelector("canvas");
  paintExample(canvas, test);
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", `A test of ${lesson.nameOf(test.label)}`);
  made.querySelectorAll("span").forEach((span, side) => {
    if (!marks) return;
    span.textContent = marks[side] ? "✓" : "✗";
    span.setAttribute("role", "img");
    span.setAttribute("aria-label", `${lesson.method(side).name} is ${marks[side] ? "right" : "wrong"}`);
  });
  return made;
}

let latest = null;

export function showCourse(lesson, found) {
  latest = { lesson, found };
  const host = document.getElementById("course");
  document.getElementById("steps").value = lesson.steps;
  document.getElementById("steps-shown").textContent = lesson.steps === 1 ? "1 step" : `${lesson.steps} steps`;
  const plain = lesson.methods.filter((method) => !DRAWINGS.methods[method].steps);
  document.getElementById("course-note").textContent = plain.length ? `${DRAWINGS.methods[plain[0]].name} learns everything at once, so its line is flat.` : "";
  if (!host.dataset.watched) {
    host.dataset.watched = "true";
    keepDrawn(host, () => showCourse(latest.lesson, latest.found));
  }
  const width = host.clientWidth;
  if (!width) return;
  const lines = (part) => lesson.methods.map((method, side) => {
    const values = found.course?.[method]?.[part] ?? [];
    const points = values.length === 1 ? [[0, values[0]], [50, values[0]]] : values.map((value, i) => [i, value]);
    return { points, kind: side ? "b" : "a" };
  });
  const tested = lesson.methods.map((_, side) => ({
    points: found.tested.map(({ steps, right }) => [steps, right[side]]), kind: side ? "b" : "a", dashed: true,
  })).filter(({ points }) => points.length);
  const title = tested.length ? "As labelled; your tests dashed" : "Drawings it gets as labelled";
  const losses = lines("loss");
  const top = rangeOf(losses.flatMap(({ points }) => points.map(([, value]) => value)));
  const shared = { width, x: [0, 50], now: lesson.steps, formatX: (value) => (value ? `${value} steps` : "0") };
  host.replaceChildren(
    lineChart({ ...shared, title, series: [...lines("accuracy"), ...tested], y: [0, 1], format: (value) => `${Math.round(100 * value)} %` }),
    lineChart({ ...shared, title: "Loss: how surprised it is by the labels", series: losses, y: top, format: (value) => value.toFixed(1) }),
  );
}
