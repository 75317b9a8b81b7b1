// A pad on which one draws with a mouse, a pen, a finger or the keyboard.

import { inkColour, paintStrokes } from "./raster.js";

const GRID = 20; // positions of the keyboard's pen in each direction
const NEAR = 0.004; // a point nearer to the last one adds nothing
const MOST_POINTS = 6000;

export class Pad {
  // `onChange` is called after each movement of the pen, `onDone` when it is lifted, `onEnter` for the Enter key.
  constructor(host, { label, prompt, onChange, onDone, onEnter }) {
    this.strokes = [];
    this.handlers = { onChange, onDone, onEnter };
    this.cursor = { x: GRID / 2, y: GRID / 2, down: false, shown: false };
    this.active = null;
    this.frame = 0;
    this.build(host, label, prompt);
    this.listen();
  }

  build(host, label, prompt) {
    host.innerHTML = `<div class="paper"><canvas tabindex="0" role="application" aria-roledescription="drawing pad"></canvas><p class="empty"></p></div>
      <div class="tools"><button type="button" class="small">Undo</button><button type="button" class="small">Clear</button></div>
      <p class="visually-hidden" role="status"></p>`;
    this.canvas = host.querySelector("canvas");
    this.empty = host.querySelector(".empty");
    this.spoken = host.querySelector("[role=status]");
    this.empty.textContent = prompt;
    this.canvas.setAttribute("aria-label", `${label}. Arrow keys move the pen, space puts it down or lifts it, backspace undoes, enter goes to the labels.`);
    [this.undoButton, this.clearButton] = host.querySelectorAll("button");
    this.undoButton.setAttribute("aria-label", `Undo the last line: ${label}`);
    this.clearButton.setAttribute("aria-label", `Clear: ${label}`);
    new ResizeObserver(() => this.resize()).observe(this.canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.paintSoon());
    this.paintSoon();
  }

  listen() {
    const { canvas } = this;
    canvas.addEventListener("pointerdown", (event) => this.press(event));
    canvas.addEventListener("pointermove", (event) => this.move(event));
    for (const name of ["pointerup", "pointercancel"]) canvas.addEventListener(name, (event) => this.lift(event));
    canvas.addEventListener("keydown", (event) => this.key(event));
    canvas.addEventListener("blur", () => { this.cursor.down = this.cursor.shown = false; this.paintSoon(); });
    this.undoButton.addEventListener("click", () => this.undo());
    this.clearButton.addEventListener("click", () => this.clear());
  }

  get isEmpty() { return this.strokes.length === 0; }

  set(strokes) {
    this.strokes = strokes;
    this.changed(true);
  }

  clear() { this.set([]); }

  undo() { this.set(this.strokes.slice(0, -1)); }

  press(event) {
    if (event.button !== 0 || this.active !== null) return;
    event.preventDefault();
    this.canvas.focus({ preventScroll: true });
    this.cursor.shown = false;
    this.active = event.pointerId;
    this.canvas.setPointerCapture(event.pointerId);
    this.begin(...this.place(event));
  }

  move(event) {
    if (event.pointerId !== this.active) return;
    const events = event.getCoalescedEvents?.() ?? [];
    for (const one of events.length ? events : [event]) this.extend(...this.place(one));
    this.changed(false);
  }

  lift(event) {
    if (event.pointerId !== this.active) return;
    this.active = null;
    this.changed(true);
  }

  place(event) {
    const box = this.canvas.getBoundingClientRect();
    const inside = (value) => Math.min(1, Math.max(0, value));
    return [inside((event.clientX - box.left) / box.width), inside((event.clientY - box.top) / box.height)];
  }

  begin(x, y) {
    if (this.points() < MOST_POINTS) this.strokes = [...this.strokes, [x, y]];
    this.changed(false);
  }

  extend(x, y) {
    const stroke = this.strokes.at(-1);
    if (!stroke || this.points() >= MOST_POINTS) return;
    const [lastX, lastY] = stroke.slice(-2);
    if (Math.hypot(x - lastX, y - lastY) >= NEAR) stroke.push(x, y);
  }

  points() { return this.strokes.reduce((sum, stroke) => sum + stroke.length / 2, 0); }

  key(event) {
    const moves = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    const { cursor } = this;
    if (event.ctrlKey || event.metaKey || event.altKey) {
      if (event.key === "z") { event.preventDefault(); this.undo(); }
      return;
    }
    if (moves[event.key]) {
      const [dx, dy] = moves[event.key];
      const inside = (value) => Math.min(GRID - 1, Math.max(1, value));
      [cursor.x, cursor.y] = [inside(cursor.x + dx), inside(cursor.y + dy)];
      if (cursor.down) { this.extend(cursor.x / GRID, cursor.y / GRID); this.changed(true); }
    } else if (event.key === " ") {
      cursor.down = !cursor.down;
      if (cursor.down) this.begin(cursor.x / GRID, cursor.y / GRID);
      this.changed(true);
    } else if (event.key === "Backspace") {
      cursor.down = false;
      this.undo();
    } else if (event.key === "Enter") {
      cursor.down = false;
      this.handlers.onEnter();
    } else {
      return;
    }
    event.preventDefault();
    cursor.shown = true;
    this.spoken.textContent = `Pen ${cursor.down ? "down" : "up"}, column ${cursor.x}, row ${cursor.y}`;
    this.paintSoon();
  }

  changed(isDone) {
    this.paintSoon();
    this.undoButton.disabled = this.clearButton.disabled = this.isEmpty;
    this.empty.hidden = !this.isEmpty;
    this.handlers.onChange();
    if (isDone) this.handlers.onDone();
  }

  resize() {
    const side = Math.round(this.canvas.clientWidth * (window.devicePixelRatio || 1));
    if (side && side !== this.canvas.width) {
      this.canvas.width = this.canvas.height = side;
      this.paint();
    }
  }

  paintSoon() {
    this.frame ||= requestAnimationFrame(() => this.paint());
  }

  paint() {
    this.frame = 0;
    const size = this.canvas.width;
    const context = this.canvas.getContext("2d");
    context.clearRect(0, 0, size, size);
    paintStrokes(context, this.strokes, size, inkColour());
    if (!this.cursor.shown) return;
    context.beginPath();
    context.arc((this.cursor.x / GRID) * size, (this.cursor.y / GRID) * size, 0.025 * size, 0, 2 * Math.PI);
    context.lineWidth = 0.012 * size;
    context.strokeStyle = context.fillStyle = getComputedStyle(this.canvas).getPropertyValue("--focus");
    context[this.cursor.down ? "fill" : "stroke"]();
  }
}
