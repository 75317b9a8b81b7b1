// Small things that several files of the Draw view need.

// Whether a label is more likely wrong than right.
export function isDoubted(example, judged) {
  const found = judged?.get(example.id);
  return Boolean(found && found.trust !== null && found.trust < 0.5 && found.suggested !== example.label);
}

export function button(text, onClick) {
  const made = document.createElement("button");
  made.type = "button";
  const label = document.createElement("span");
  label.textContent = text;
  made.append(label);
  made.addEventListener("click", onClick);
  return made;
}
