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

const LAST_STEP = 50;
const $ = (id) => document.getElementById(id);
const lesson = new Lesson(DRAWINGS);
// What the server has said about the present lesson.
const found = { judged: null, course: null, answers: null, tests: null, tested: [] };
let edits = 0; // after which all that was found is out of date
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
    const tests = [...lesson.tests];
    try {
      const marks = await marksOf(tests, lesson.steps);
      found.tests = new Map(tests.map((one, i) => [one.id, marks.map((side) => side[i])]));
    } catch (error) {
      report(error);
    }
    showTests(lesson, found);
  });

  // One number of steps after the other, so that the answer to a stroke waits for one at most.
  const testCourse = oneAtATime(async () => {
    const before = edits;
    found.tested = [];
    try {
      for (let steps = 0; steps <= LAST_STEP && lesson.canLearn && lesson.tests.length; steps += LAST_STEP / 10) {
        const marks = await marksOf([...lesson.tests], steps);
        if (edits !== before) return; // and this is asked again
        found.tested.push({ steps, right: marks.map((side) => side.filter(Boolean).length / side.length) });
        showCourse(lesson, found);
      }
    } catch (error) {
      report(error);
    }
    showCourse(lesson, found);
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
    if (detail !== "steps" && detail !== "names") edits += 1;
    if (detail === "steps") {
      showCourse(lesson, found);
      ask();
      askTests();
    } else if (detail === "tests") {
      showLabels();
      askTests();
      testCourse();
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
    testCourse();
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

// Whether each method is right about each test, after this number of steps.
async function marksOf(tests, steps) {
  const asked = lesson.request();
  const sides = [...lesson.methods];
  const answer = await post("ask", { lesson: asked.lesson, methods: pair(), steps, drawings: tests.map((one) => one.drawing) });
  const guesses = (method) => answer.methods[method].map((row) => asked.classes[row.indexOf(Math.max(...row))].id);
  return sides.map((method) => guesses(method).map((guess, i) => guess === tests[i].label));
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
    lesson.setSteps(lesson.steps >= LAST_STEP ? 0 : lesson.steps);
    $("play").textContent = "❚❚";
    timer = setInterval(() => (lesson.steps >= LAST_STEP ? stop() : lesson.setSteps(lesson.steps + 1)), 120);
  });
}
