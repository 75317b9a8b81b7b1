// What was drawn or dropped: classes, examples with their labels, and tests. It is kept in the browser over a reload.

import { rasteriseImage, toText } from "./raster.js";

const VERSION = 1;
export const MOST_CLASSES = 10;
export const MOST_EXAMPLES = 20;
export const MOST_TESTS = 30;

// A kind of examples: where they are kept, what they are called, what the server takes of each, how a file becomes one,
// and the methods that learn from them.
export const DRAWINGS = {
  key: "eigen-reptile drawings",
  noun: "drawing",
  sample: "drawing",
  read: async (file) => ({ drawing: toText(await rasteriseImage(file)) }),
  nothing: "Nothing yet. Draw one, or drop pictures here.",
  chosen: ["eigen-reptile", "trust"],
  methods: {
    reptile: { name: "Reptile", about: "Believes every label.", steps: true },
    "eigen-reptile": { name: "Eigen-Reptile", about: "Believes every label. It starts from another place than Reptile.", steps: true },
    "eigen-reptile-ispl": { name: "Eigen-Reptile + ISPL", about: "Believes every label. In its training, surprising ones were left out.", steps: true },
    prototypes: { name: "Prototypes", about: "Compares with the average drawing of each class.", steps: false },
    trust: { name: "Trust", about: "Checks every label against all the others.", steps: false },
  },
};

export class Lesson extends EventTarget {
  constructor(kind) {
    super();
    this.kind = kind;
    this.data = restored(kind) ?? fresh(kind);
  }

  // Every change goes through here: it is written down, and whoever listens is told.
  change(what, edit) {
    edit(this.data);
    try {
      localStorage.setItem(this.kind.key, JSON.stringify({ version: VERSION, ...this.data }));
    } catch {
      // a browser that keeps nothing still shows the page
    }
    this.dispatchEvent(new CustomEvent("change", { detail: what }));
  }

  method(side) { return this.kind.methods[this.methods[side]]; }
  get classes() { return this.data.classes; }
  get examples() { return this.data.examples; }
  get tests() { return this.data.tests; }
  get methods() { return this.data.methods; }
  get steps() { return this.data.steps; }

  of(id) { return this.examples.filter((example) => example.label === id); }
  nameOf(id) { return this.classes.find((one) => one.id === id)?.name ?? "?"; }

  // Classes that have examples; a method can learn when there are two.
  get taught() { return this.classes.filter((one) => this.of(one.id).length); }
  get canLearn() { return this.taught.length >= 2; }

  // The lesson as the server takes it, and the examples and classes in its order.
  request() {
    const classes = this.taught;
    const examples = classes.flatMap((one) => this.of(one.id));
    const position = new Map(classes.map((one, i) => [one.id, i]));
    return {
      classes,
      examples,
      lesson: {
        classes: distinct(classes.map((one) => one.name.trim() || "no name")),
        examples: examples.map((one) => ({ [this.kind.sample]: one[this.kind.sample], label: position.get(one.label) })),
      },
    };
  }

  addClass(name) {
    const id = newId();
    this.change("classes", (data) => data.classes.push({ id, name: name ?? nextName(data.classes) }));
    return id;
  }

  rename(id, name) { this.change("names", (data) => { data.classes.find((one) => one.id === id).name = name; }); }

  removeClass(id) {
    this.change("examples", (data) => {
      data.classes = data.classes.filter((one) => one.id !== id);
      data.examples = data.examples.filter((one) => one.label !== id);
      for (const one of data.examples) if (one.drawnAs === id) one.drawnAs = one.label;
      data.tests = data.tests.filter((one) => one.label !== id);
    });
  }

  addExample(label, content) {
    this.change("examples", (data) => data.examples.push({ id: newId(), label, drawnAs: label, ...content }));
  }

  removeExample(id) { this.change("examples", (data) => { data.examples = data.examples.filter((one) => one.id !== id); }); }
  relabel(id, label) { this.change("examples", (data) => { data.examples.find((one) => one.id === id).label = label; }); }
  addTest(label, { strokes, drawing }) { this.change("tests", (data) => data.tests.push({ id: newId(), label, strokes, drawing })); }
  clearTests() { this.change("tests", (data) => { data.tests = []; }); }
  setMethod(side, method) { this.change("methods", (data) => { data.methods[side] = method; }); }
  setSteps(steps) { this.change("steps", (data) => { data.steps = steps; }); }
  get mislabelled() { return this.examples.filter((one) => one.label !== one.drawnAs); }
  putRight() { this.change("examples", (data) => { for (const one of data.examples) one.label = one.drawnAs; }); }

  // Give a random example another label. Its class keeps at least one, so that it does not vanish.
  mislabelOne() {
    const most = Math.max(...this.taught.map((one) => this.of(one.id).length));
    const enough = Math.min(3, most);
    const candidates = this.examples.filter((one) => one.label === one.drawnAs && this.of(one.label).length >= Math.max(2, enough));
    if (!candidates.length || this.taught.length < 2) return null;
    const chosen = pick(candidates);
    this.relabel(chosen.id, pick(this.taught.filter((one) => one.id !== chosen.label && this.of(one.id).length < MOST_EXAMPLES)).id);
    return chosen;
  }

  replace({ classes, examples }) {
    this.change("examples", (data) => {
      data.classes = classes;
      data.examples = examples.map((one) => ({ id: newId(), drawnAs: one.label, ...one }));
      data.tests = [];
    });
  }

  startOver() { this.change("examples", (data) => Object.assign(data, fresh(this.kind))); }
}

function fresh({ chosen }) {
  return { classes: ["A", "B"].map((name) => ({ id: newId(), name })), examples: [], tests: [], methods: [...chosen], steps: 50 };
}

function restored({ key, methods }) {
  try {
    const { version, ...data } = JSON.parse(localStorage.getItem(key));
    const isWhole = Array.isArray(data.classes) && Array.isArray(data.examples) && Array.isArray(data.tests);
    return version === VERSION && isWhole && data.methods.every((one) => one in methods) ? data : null;
  } catch {
    return null;
  }
}

export function newId() { return crypto.getRandomValues(new Uint32Array(2)).join("-"); }

function pick(list) { return list[Math.floor(Math.random() * list.length)]; }

function nextName(classes) {
  const used = new Set(classes.map((one) => one.name));
  return [..."ABCDEFGHIJKLMNOP"].find((letter) => !used.has(letter));
}

function distinct(names) {
  const used = new Set();
  return names.map((name) => {
    let free = name;
    for (let number = 2; used.has(free); number++) free = `${name.slice(0, 34)} (${number})`;
    used.add(free);
    return free;
  });
}
