// Saving and opening: model files, ONNX files, and the drawings as pictures.

import { Refused, post } from "./api.js";
import { fromText, toText } from "./raster.js";

const FORMS = {
  model: { button: "save-model", name: "drawings.model", meanwhile: "Saving …", then: "Use it with: eigen-reptile predict drawings.model PICTURES" },
  onnx: { button: "save-onnx", name: "drawings.onnx", meanwhile: "Exporting; this can take half a minute …", then: "It runs wherever ONNX does." },
  pictures: { button: "save-drawings", name: "drawings.zip", meanwhile: "Saving …", then: "It has a folder of pictures for each class." },
};
const $ = (id) => document.getElementById(id);

export function connectFiles(lesson, say) {
  for (const [form, { button }] of Object.entries(FORMS)) $(button).addEventListener("click", () => save(lesson, form, say));
  $("open-model").addEventListener("change", () => { open(lesson, $("open-model").files[0], say); });
}

async function save(lesson, form, say) {
  if (!lesson.canLearn) return say("Two classes need drawings before there is something to save.");
  const { name, meanwhile, then } = FORMS[form];
  say(meanwhile);
  try {
    const { data } = await post("save", { lesson: lesson.request().lesson, form });
    download(new Blob([fromText(data)]), name);
    say(`${name} is saved. ${then}`);
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

export function download(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
