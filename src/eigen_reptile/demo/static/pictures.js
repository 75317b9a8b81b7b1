// The Pictures view: classes of photographs, by the features of a pretrained network.

import { showAnswers } from "./answers.js";
import { Refused, oneAtATime, post } from "./api.js";
import { connectLabels, connectMethods, judgements, noticeOf, showLabelActions } from "./board.js";
import { takePicture } from "./camera.js";
import { Editor } from "./editor.js";
import { acceptDrops, showExamples } from "./examples.js";
import { download } from "./files.js";
import { Lesson } from "./lesson.js";
import { fromText, onWhite, paintExample, toText } from "./raster.js";

const SIDE = 160; // at which the network sees a picture
const PHOTOGRAPHS = {
  key: "eigen-reptile pictures",
  noun: "picture",
  sample: "features",
  read: seen,
  nothing: "Nothing yet. Drop pictures here.",
  chosen: ["mean", "trust"],
  methods: {
    mean: { name: "Prototypes", about: "Believes every label, compares averages." },
    logistic: { name: "Logistic regression", about: "Believes every label, draws a border." },
    trust: { name: "Trust", about: "Checks every label against all the others." },
  },
};

const PAGE = `
  <div class="intro"><h1>Can it learn from a few photographs, when one label is wrong?</h1>
    <p>Drop a few photographs of two or more kinds of things. Then give one of them a wrong label, and watch whether it is found out.</p></div>
  <section class="card" aria-labelledby="photographs-title">
    <div class="bar"><h2 id="photographs-title"><span class="step">1</span> Teach it</h2>
      <div class="actions"><button class="primary mislabel">Mislabel one for me</button><button class="repair">Put labels right</button>
        <button id="save-pictures">Save the model</button><button id="forget-pictures">Start over</button></div></div>
    <p class="hint">The number under a picture says how far its label can be trusted. Click a picture to change its label.</p>
    <div class="classes"></div>
    <div><button class="new-class">+ New class</button></div>
    <p class="notice" role="status"></p>
  </section>
  <section class="card" aria-labelledby="query-title">
    <h2 id="query-title"><span class="step">2</span> Test it</h2>
    <div class="drop" id="query"><canvas width="160" height="160" role="img" aria-label="The picture that is tested"></canvas>
      <p class="hint">Drop a picture that it has not seen.</p>
      <div class="actions"><label class="button">Choose a picture<input type="file" id="query-file" accept="image/*" class="visually-hidden"></label>
        <button class="camera" id="query-camera">Camera</button></div></div>
    <div class="duel"><div class="side a" data-side="0"></div><div class="side b" data-side="1"></div></div>
    <p class="visually-hidden spoken" role="status" aria-live="polite"></p>
  </section>`;

// The features of a picture, and a small copy to show. Only its pixels at the network's size are sent.
async function seen(file) {
  const context = onWhite(await createImageBitmap(file), SIDE, SIDE);
  const { data } = context.getImageData(0, 0, SIDE, SIDE);
  const { features } = await post("pictures/see", { picture: toText(data.filter((_, i) => i % 4 !== 3)) });
  return { features, picture: context.canvas.toDataURL("image/jpeg", 0.85) };
}

export function startPictures() {
  const view = document.getElementById("pictures");
  view.innerHTML = PAGE;
  const $ = (id) => document.getElementById(id);
  const lesson = new Lesson(PHOTOGRAPHS);
  const found = { judged: null, answers: null };
  const { say, report, showNotice } = noticeOf(view, lesson, found);
  const editor = new Editor(lesson, found);
  let query = null;

  const learn = oneAtATime(async () => {
    const asked = lesson.request();
    if (!lesson.canLearn) {
      Object.assign(found, { judged: null, answers: null });
      return show();
    }
    try {
      found.judged = judgements(asked, await post("pictures/judge", { lesson: asked.lesson }));
      if (query) {
        const answer = await post("pictures/ask", { lesson: asked.lesson, methods: [...new Set(lesson.methods)], pictures: [query.features] });
        found.answers = { classes: asked.classes, methods: answer.methods };
      }
    } catch (error) {
      report(error);
    }
    show();
  });

  function show() {
    showExamples(view, lesson, found, editor, say);
    showAnswers(view, lesson, found);
    showLabelActions(view, lesson);
    showNotice();
  }

  async function test(file) {
    if (!file) return;
    try {
      query = await seen(file);
      paintExample($("query").querySelector("canvas"), query);
      learn();
    } catch (error) {
      report(error instanceof Refused ? error : new Refused(`${file.name} cannot be read as a picture.`));
    }
  }

  async function save() {
    if (!lesson.canLearn) return say("Two classes need pictures before there is something to save.");
    say("Saving …");
    try {
      const { data } = await post("pictures/save", { lesson: lesson.request().lesson });
      download(new Blob([fromText(data)]), "pictures.model");
      say("pictures.model is saved. Use it with: eigen-reptile predict pictures.model PICTURES");
    } catch (error) {
      report(error);
    }
  }

  lesson.addEventListener("change", ({ detail }) => {
    if (detail === "names") return show();
    say("");
    show();
    learn();
  });
  connectMethods(view, lesson);
  connectLabels(view, lesson);
  acceptDrops($("query"), ([file]) => test(file));
  $("query-file").addEventListener("change", () => { test($("query-file").files[0]); $("query-file").value = ""; });
  $("query-camera").addEventListener("click", async () => test(await takePicture()));
  $("save-pictures").addEventListener("click", save);
  $("forget-pictures").addEventListener("click", () => { if (confirm("Remove all pictures?")) lesson.startOver(); });
  show();
  learn();
}
