// What Draw and Pictures have in common: the line below the examples, the two methods, and buttons for labels.

import { Refused } from "./api.js";
import { MOST_CLASSES } from "./lesson.js";
import { isDoubted } from "./parts.js";

// The line below the examples: a message, or which labels look wrong.
export function noticeOf(view, lesson, found) {
  let notice = "";
  const say = (text) => {
    notice = text;
    showNotice();
  };

  function showNotice() {
    const line = view.querySelector(".notice");
    const doubted = lesson.examples.filter((one) => isDoubted(one, found.judged)).map((one) => {
      const number = lesson.of(one.label).indexOf(one) + 1;
      return `“${lesson.nameOf(one.label)}” number ${number} looks like “${lesson.nameOf(found.judged.get(one.id).suggested)}”`;
    });
    const more = doubted.length > 2 ? `, and ${doubted.length - 2} more` : "";
    line.textContent = notice || (doubted.length ? `Probably a wrong label: ${doubted.slice(0, 2).join("; ")}${more}.` : idle());
    line.classList.toggle("found", !notice && doubted.length > 0);
  }

  function idle() {
    if (!lesson.canLearn) return `It can learn as soon as two classes have ${lesson.kind.noun}s.`;
    return found.judged ? "Every label looks right." : "Learning …";
  }

  const report = (error) => say(error instanceof Refused ? error.message : "The server cannot be reached. Is it still running?");
  return { say, report, showNotice };
}

// What the server has said about each label, by the example's id.
export function judgements({ classes, examples }, answer) {
  return new Map(examples.map((one, i) => [one.id, { trust: answer.trust[i], suggested: classes[answer.suggested[i]]?.id }]));
}

export function connectMethods(view, lesson) {
  for (const side of view.querySelectorAll(".side")) {
    const number = Number(side.dataset.side);
    side.innerHTML = `<select aria-label="${number ? "Right" : "Left"} method"></select><p class="about"></p><ul class="answer"></ul><p class="score"></p>`;
    const select = side.querySelector("select");
    for (const [name, method] of Object.entries(lesson.kind.methods)) select.add(new Option(method.name, name));
    select.value = lesson.methods[number];
    select.addEventListener("change", () => lesson.setMethod(number, select.value));
  }
}

export function connectLabels(view, lesson) {
  view.querySelector(".new-class").addEventListener("click", () => focusName(view, lesson.addClass()));
  view.querySelector(".mislabel").addEventListener("click", () => lesson.mislabelOne());
  view.querySelector(".repair").addEventListener("click", () => lesson.putRight());
}

export function showLabelActions(view, lesson) {
  view.querySelector(".new-class").hidden = lesson.classes.length >= MOST_CLASSES;
  view.querySelector(".mislabel").disabled = !lesson.canLearn || lesson.examples.length < 4;
  view.querySelector(".repair").disabled = !lesson.mislabelled.length;
}

function focusName(view, id) {
  const input = view.querySelector(`[data-class="${id}"] input[type=text]`);
  input?.focus();
  input?.select();
}
