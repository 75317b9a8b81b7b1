// Saving and opening: model files, ONNX files, and the drawings as pictures.

import { Refused, post } from "./api.js";
import { asPng, fromText, toText } from "./raster.js";

const $ = (id) => document.getElementById(id);

export function connectFiles(lesson, say) {
  $("save-model").addEventListener("click", () => save(lesson, "model", "drawings.model", say));
  $("save-onnx").addEventListener("click", () => save(lesson, "onnx", "drawings.onnx", say));
  $("open-model").addEventListener("change", () => { open(lesson, $("open-model").files[0], say); });
  $("save-drawings").addEventListener("click", () => saveDrawings(lesson, say));
}

async function save(lesson, form, name, say) {
  if (!lesson.canLearn) return say("Two classes need drawings before there is a model to save.");
  say(form === "onnx" ? "Exporting; this can take half a minute …" : "Saving …");
  try {
    const { data } = await post("save", { lesson: lesson.request().lesson, form });
    download(new Blob([fromText(data)]), name);
    say(form === "onnx" ? `${name} is saved.` : `${name} is saved. Use it with: eigen-reptile predict ${name} PICTURES`);
  } catch (error) {
    say(error instanceof Refused ? error.message : "The server cannot be reached.");
  }
}

async function open(lesson, file, say) {
  if (!file) return;
  $("open-model").value = "";
  if (file.size > 2e6) return say("That file is too large to be a model of this page.");
  try {
    const { classes, examples } = await post("open", { file: toText(new Uint8Array(await file.arrayBuffer())) });
    const named = classes.map((name, i) => ({ id: `opened-${i}`, name }));
    lesson.replace({ classes: named, examples: examples.map(({ drawing, label }) => ({ drawing, label: named[label].id })) });
    say(`${file.name} is open.`);
  } catch (error) {
    say(error instanceof Refused ? error.message : "The server cannot be reached.");
  }
}

// A picture for each drawing, as `eigen-reptile predict` takes them.
async function saveDrawings(lesson, say) {
  if (!lesson.examples.length) return say("There is no drawing yet.");
  for (const [number, example] of lesson.examples.entries()) {
    const name = lesson.nameOf(example.label).replace(/[^\p{L}\p{N}-]+/gu, "-");
    download(await asPng(example.drawing), `${name}-${number + 1}.png`);
    await new Promise((later) => { setTimeout(later, 150); }); // browsers drop downloads that come at once
  }
  say(`${lesson.examples.length} pictures are saved.`);
}

function download(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
