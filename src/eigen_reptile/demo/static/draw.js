// The Draw view: what happens between the pads, the examples and the two answers.

import { follow, oneAtATime, post } from "./api.js";
import { showAnswers, showCourse, showTests } from "./answers.js";
import { connectLabels, connectMethods, judgements, noticeOf, showLabelActions } from "./board.js";
import { Editor } from "./editor.js";
import { showExamples } from "./examples.js";
import { connectFiles } from "./files.js";
import { DRAWINGS, Lesson, MOST_EXAMPLES, MOST_TESTS } from "./lesson.js";
import { Pad } from "./pad.js";
import { button } from "./parts.js";
import { rasterise, toText } from "./raster.js";
import { sampleDrawings } from "./samples.js";

const $ = (id) => document.getElementById(id);
const lesson = new Lesson(DRAWINGS);
// What the server has said about the present lesson.
const found = { judged: null, course: null, answers: null, tests: null };
const view = $("draw");
const { say, report, showNotice } = noticeOf(view, lesson, found);

export function startDraw() {
  const teach = new Pad($("teach-pad"), {
    label: "Draw an example", prompt: "draw here", onChange: () => {}, onDone: () => showLabels(), onEnter: () => focusFirst("teach-labels"),
  });
  const test = new Pad($("test-pad"), {
    label: "Draw a test", prompt: "draw something new", onChange: () => ask(), onDone: () => { showLabels(); ask(); }, onEnter: () => focusFirst("test-labels"),
  });
  const editor = new Editor(lesson, found);

  function showLabels() {
    chips($("teach-labels"), teach.isEmpty, (id) => {
      if (lesson.of(id).length >= MOST_EXAMPLES) return say(`A class has at most ${MOST_EXAMPLES} drawings.`);
      const { strokes } = teach;
      teach.clear();
      lesson.addExample(id, { strokes, drawing: toText(rasterise(strokes)) });
      teach.canvas.focus({ preventScroll: true });
    });
    chips($("test-labels"), test.isEmpty || !lesson.canLearn || lesson.tests.length >= MOST_TESTS, (id) => {
      const { strokes } = test;
      test.clear();
      lesson.addTest(id, { strokes, drawing: toText(rasterise(strokes)) });
      test.canvas.focus({ preventScroll: true });
    });
  }

  const learn = oneAtATime(async () => {
    const asked = lesson.request();
    if (!lesson.canLearn) {
      Object.assign(found, { judged: null, course: null, answers: null, tests: null });
      return showAll();
    }
    try {
      const answer = await follow("learn", { lesson: asked.lesson, methods: pair() }, () => {});
      found.judged = judgements(asked, answer);
      found.course = answer.methods;
      say("");
    } catch (error) {
      report(error);
    }
    showAll();
    await Promise.all([ask(), askTests()]);
  });

  const ask = oneAtATime(async () => {
    if (!lesson.canLearn || test.isEmpty) {
      found.answers = null;
      return showAnswers(view, lesson, found);
    }
    const asked = lesson.request();
    try {
      const drawings = [toText(rasterise(test.strokes))];
      const answer = await post("ask", { lesson: asked.lesson, methods: pair(), steps: lesson.steps, drawings });
      found.answers = { classes: asked.classes, methods: answer.methods };
    } catch (error) {
      report(error);
    }
    showAnswers(view, lesson, found);
  });

  const askTests = oneAtATime(async () => {
    if (!lesson.canLearn || !lesson.tests.length) {
      found.tests = null;
      return showTests(lesson, found);
    }
    const asked = lesson.request();
    const tests = [...lesson.tests];
    try {
      const answer = await post("ask", { lesson: asked.lesson, methods: pair(), steps: lesson.steps, drawings: tests.map((one) => one.drawing) });
      const guesses = (method) => answer.methods[method].map((row) => asked.classes[row.indexOf(Math.max(...row))].id);
      const sides = lesson.methods.map((method) => guesses(method));
      found.tests = new Map(tests.map((one, i) => [one.id, sides.map((side) => side[i] === one.label)]));
    } catch (error) {
      report(error);
    }
    showTests(lesson, found);
  });

  function showAll() {
    showExamples(view, lesson, found, editor, say);
    showAnswers(view, lesson, found);
    showCourse(lesson, found);
    showTests(lesson, found);
    showNotice();
    showLabels();
    showLabelActions(view, lesson);
    $("sample").hidden = lesson.examples.length > 0;
  }

  lesson.addEventListener("change", ({ detail }) => {
    if (detail === "steps") {
      showCourse(lesson, found);
      ask();
      askTests();
    } else if (detail === "tests") {
      showLabels();
      askTests();
    } else if (detail === "names") {
      showLabels();
      showAnswers(view, lesson, found);
      showNotice();
    } else {
      showAll();
      update();
    }
  });

  async function update() {
    view.setAttribute("aria-busy", "true");
    await learn();
    view.removeAttribute("aria-busy");
  }

  connectMethods(view, lesson);
  connectLabels(view, lesson);
  connectButtons();
  connectSteps();
  connectFiles(lesson, say);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", showAll);
  showAll();
  update();
}

// One method asked twice is asked once.
function pair() { return [...new Set(lesson.methods)]; }

// A button for each class. Buttons stay as long as the classes do, so that none vanishes under a finger.
function chips(host, disabled, choose) {
  const wanted = lesson.classes.map(({ id }) => id).join();
  if (host.dataset.classes !== wanted) {
    host.dataset.classes = wanted;
    host.replaceChildren(...lesson.classes.map(({ id }) => button("", () => choose(id))));
  }
  lesson.classes.forEach(({ name }, i) => {
    host.children[i].querySelector("span").textContent = name || "no name";
    host.children[i].disabled = disabled;
  });
}

function focusFirst(id) { $(id).querySelector("button:not(:disabled)")?.focus(); }

function connectButtons() {
  $("clear-tests").addEventListener("click", () => lesson.clearTests());
  $("sample").addEventListener("click", () => {
    const kinds = sampleDrawings();
    const classes = kinds.map(({ name }, i) => ({ id: `sample-${i}`, name }));
    const examples = kinds.flatMap(({ drawings }, i) => drawings.map((strokes) => ({ label: classes[i].id, strokes, drawing: toText(rasterise(strokes)) })));
    lesson.replace({ classes, examples });
  });
  $("more").addEventListener("click", () => {
    const isOpen = $("file-actions").hidden;
    $("file-actions").hidden = !isOpen;
    $("more").setAttribute("aria-expanded", String(isOpen));
  });
  $("start-over").addEventListener("click", () => { if (confirm("Remove all drawings?")) lesson.startOver(); });
}

function connectSteps() {
  let timer = 0;
  const stop = () => { clearInterval(timer); timer = 0; $("play").textContent = "▶"; };
  $("steps").addEventListener("input", () => { stop(); lesson.setSteps(Number($("steps").value)); });
  $("play").addEventListener("click", () => {
    if (timer) return stop();
    lesson.setSteps(lesson.steps >= 50 ? 0 : lesson.steps);
    $("play").textContent = "❚❚";
    timer = setInterval(() => (lesson.steps >= 50 ? stop() : lesson.setSteps(lesson.steps + 1)), 120);
  });
}
