// The window in which the label of an example is changed.

import { MOST_EXAMPLES } from "./lesson.js";
import { button, isDoubted } from "./parts.js";
import { paintExample } from "./raster.js";

export class Editor {
  constructor(lesson, found) {
    this.lesson = lesson;
    this.found = found;
    this.dialog = document.getElementById("editor");
    this.dialog.addEventListener("close", () => {
      if (!this.id) return; // another view's example was open
      if (this.dialog.returnValue === "delete") lesson.removeExample(this.id);
      document.getElementById(`tile-${this.id}`)?.focus();
      this.id = null;
    });
    this.dialog.addEventListener("click", (event) => { if (event.target === this.dialog) this.dialog.close(); });
  }

  open(id) {
    this.id = id;
    const { noun } = this.lesson.kind;
    document.getElementById("editor-title").textContent = `This ${noun}`;
    document.getElementById("editor-picture").setAttribute("aria-label", `The ${noun}`);
    this.dialog.returnValue = "";
    const example = this.lesson.examples.find((one) => one.id === id);
    const labels = document.getElementById("editor-labels");
    labels.replaceChildren(...this.lesson.classes.map((one) => {
      const made = button(one.name || "no name", () => {
        if (one.id !== example.label) this.lesson.relabel(id, one.id);
        this.dialog.close();
      });
      made.setAttribute("aria-pressed", String(one.id === example.label));
      made.disabled = one.id !== example.label && this.lesson.of(one.id).length >= MOST_EXAMPLES;
      return made;
    }));
    document.getElementById("editor-trust").textContent = this.verdict(example);
    this.dialog.showModal();
    paintExample(document.getElementById("editor-picture"), example);
    labels.querySelector("[aria-pressed=true]")?.focus();
  }

  verdict(example) {
    const judged = this.found.judged?.get(example.id);
    if (!judged) return "It has not been judged yet.";
    if (judged.trust === null) return "It is alone in its class, so nothing can be said about its label.";
    const percent = `${Math.round(100 * judged.trust)} %`;
    if (isDoubted(example, this.found.judged)) return `Its label is right with ${percent}. It looks like “${this.lesson.nameOf(judged.suggested)}”.`;
    return `Its label is right with ${percent}.`;
  }
}
