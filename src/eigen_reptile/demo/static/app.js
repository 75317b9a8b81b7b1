// Tabs, and starting each view when it is first looked at.

import { get } from "./api.js";
import { watchForCamera } from "./camera.js";
import { startDraw } from "./draw.js";

const TABS = [...document.querySelectorAll("[role=tab]")];
const START = {
  draw: startDraw,
  sine: async () => (await import("./sine.js")).startSine(),
  runs: async () => (await import("./runs.js")).startRuns(),
  pictures: async () => (await import("./pictures.js")).startPictures(),
};
const about = get("about");
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

for (const tab of TABS) {
  tab.addEventListener("click", () => { location.hash = tab.getAttribute("aria-controls"); });
  tab.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const shown = TABS.filter((one) => !one.hidden);
    const next = shown[(shown.indexOf(tab) + step + shown.length) % shown.length];
    next.focus();
    location.hash = next.getAttribute("aria-controls");
  });
}
addEventListener("hashchange", () => show(nameInAddress()));
show(nameInAddress());
watchForCamera();

const { extras } = await about;
document.getElementById("tab-pictures").hidden = !extras.vision;
document.getElementById("no-pictures").hidden = extras.vision;
