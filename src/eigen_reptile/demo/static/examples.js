// The classes with their examples, and how far each label can be trusted.

import { Refused } from "./api.js";
import { takePicture } from "./camera.js";
import { MOST_EXAMPLES } from "./lesson.js";
import { button, isDoubted } from "./parts.js";
import { paintExample } from "./raster.js";

const MOST_BYTES = 30e6; // of a picture

export function showExamples(view, lesson, found, editor, say) {
  const host = view.querySelector(".classes");
  const focused = host.contains(document.activeElement) ? document.activeElement.id : "";
  const rows = new Map([...host.children].map((row) => [row.dataset.class, row]));
  const wanted = lesson.classes.map((one) => rows.get(one.id) ?? makeRow(lesson, one, say));
  if (wanted.length !== host.children.length || wanted.some((row, i) => row !== host.children[i])) host.replaceChildren(...wanted);
  lesson.classes.forEach((one, i) => fillRow(wanted[i], lesson, one, found, editor));
  if (focused && document.activeElement.id !== focused) document.getElementById(focused)?.focus({ preventScroll: true });
}

function makeRow(lesson, { id, name }, say) {
  const row = document.createElement("div");
  row.className = "class";
  row.dataset.class = id;
  row.innerHTML = `<div class="who"><input type="text" maxlength="40" aria-label="Name of this class" spellcheck="false">
    <div class="count"><span></span><label class="link">add pictures<input type="file" accept="image/*" multiple class="visually-hidden"></label><button class="camera">camera</button></div></div>
    <div class="tiles"></div>`;
  const input = row.querySelector("input[type=text]");
  input.value = name;
  input.addEventListener("input", () => lesson.rename(id, input.value));
  const files = row.querySelector("input[type=file]");
  files.addEventListener("change", () => { addPictures(lesson, id, files.files, say); files.value = ""; });
  row.querySelector(".camera").addEventListener("click", async () => {
    const taken = await takePicture();
    if (taken) addPictures(lesson, id, [taken], say);
  });
  const remove = button("✕", () => {
    if (!lesson.of(id).length || confirm(`Remove “${lesson.nameOf(id)}” and its ${lesson.kind.noun}s?`)) lesson.removeClass(id);
  });
  remove.classList.add("remove");
  row.querySelector(".count > span").after(remove);
  acceptDrops(row, (dropped) => addPictures(lesson, id, dropped, say));
  return row;
}

export function acceptDrops(place, take) {
  for (const kind of ["dragover", "dragleave", "drop"]) {
    place.addEventListener(kind, (event) => {
      event.preventDefault();
      place.classList.toggle("dropping", kind === "dragover");
      if (kind === "drop") take(event.dataTransfer.files);
    });
  }
}

async function addPictures(lesson, id, files, say) {
  const { noun, read } = lesson.kind;
  const refused = [];
  for (const file of [...files].slice(0, MOST_EXAMPLES)) {
    if (lesson.of(id).length >= MOST_EXAMPLES) {
      refused.push(`A class has at most ${MOST_EXAMPLES} ${noun}s.`);
      break;
    }
    try {
      if (file.size > MOST_BYTES) throw new Error("too large");
      lesson.addExample(id, await read(file));
    } catch (error) {
      refused.push(error instanceof Refused ? error.message : `${file.name} cannot be read as a picture, is too large, or has nothing on it.`);
    }
  }
  if (refused.length) say(refused.join(" "));
}

function fillRow(row, lesson, { id, name }, found, editor) {
  const examples = lesson.of(id);
  const input = row.querySelector("input[type=text]");
  if (document.activeElement !== input) input.value = name;
  row.querySelector(".count > span").textContent = `${examples.length} ${lesson.kind.noun}${examples.length === 1 ? "" : "s"}`;
  const remove = row.querySelector(".remove");
  remove.setAttribute("aria-label", `Remove the class ${name}`);
  remove.hidden = lesson.classes.length <= 2;
  row.querySelector(".camera").setAttribute("aria-label", `Take a picture for ${name} with the camera`);
  row.querySelector("input[type=file]").setAttribute("aria-label", `Add pictures to ${name}`);
  const tiles = row.querySelector(".tiles");
  if (!examples.length) {
    const nothing = document.createElement("p");
    nothing.className = "nothing";
    nothing.textContent = lesson.kind.nothing;
    return tiles.replaceChildren(nothing);
  }
  tiles.replaceChildren(...examples.map((one, i) => tile(lesson, one, i, found, editor)));
}

function tile(lesson, example, i, found, editor) {
  const made = document.createElement("button");
  made.type = "button";
  made.className = "tile";
  made.id = `tile-${example.id}`;
  made.innerHTML = `<canvas width="64" height="64"></canvas><span class="meter"><i></i></span>
    <span class="visually-hidden who"></span><span class="trust"></span><span class="visually-hidden like"></span><span class="guess"></span>`;
  paintExample(made.querySelector("canvas"), example);
  const judged = found.judged?.get(example.id);
  const percent = judged?.trust == null ? null : Math.round(100 * judged.trust);
  const doubted = isDoubted(example, found.judged);
  made.classList.toggle("doubted", doubted);
  made.querySelector(".meter i").style.transform = `scaleX(${percent === null ? 0 : percent / 100})`;
  made.querySelector(".trust").textContent = percent === null ? (judged ? "alone" : "…") : `${percent} %`;
  made.querySelector(".guess").textContent = doubted ? `${lesson.nameOf(judged.suggested)}?` : "";
  made.querySelector(".who").textContent = `${lesson.nameOf(example.label)} ${i + 1}, trust `;
  made.querySelector(".like").textContent = doubted ? ", looks like " : "";
  made.addEventListener("click", () => editor.open(example.id));
  return made;
}
