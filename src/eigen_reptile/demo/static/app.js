// Tabs, and starting each view when it is first looked at.

import { startDraw } from "./draw.js";

const TABS = [...document.querySelectorAll("[role=tab]")];
const START = {
  draw: startDraw,
  sine: async () => (await import("./sine.js")).startSine(),
  runs: async () => (await import("./runs.js")).startRuns(),
};
const started = new Set();

function show(name) {
  for (const tab of TABS) {
    const isChosen = tab.getAttribute("aria-controls") === name;
    tab.setAttribute("aria-selected", String(isChosen));
    tab.tabIndex = isChosen ? 0 : -1;
    document.getElementById(tab.getAttribute("aria-controls")).hidden = !isChosen;
    if (isChosen) document.title = `${tab.textContent} · eigen-reptile`;
  }
  if (!started.has(name)) {
    started.add(name);
    START[name]();
  }
}

function nameInAddress() {
  const name = location.hash.slice(1);
  return name in START ? name : "draw";
}

for (const [i, tab] of TABS.entries()) {
  tab.addEventListener("click", () => { location.hash = tab.getAttribute("aria-controls"); });
  tab.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const next = TABS[(i + step + TABS.length) % TABS.length];
    next.focus();
    location.hash = next.getAttribute("aria-controls");
  });
}
addEventListener("hashchange", () => show(nameInAddress()));
show(nameInAddress());
