// Three kinds of drawings to begin with, each a little different, as if drawn by hand.

const NAMES = ["star", "spiral", "house"];
const EACH = 4;

export function sampleDrawings() {
  const random = generator(7);
  return NAMES.map((name) => ({ name, drawings: Array.from({ length: EACH }, () => wobbled(SHAPES[name](), random)) }));
}

const SHAPES = {
  star() {
    const corner = (i) => [0.5 + 0.36 * Math.sin((4 * Math.PI * i) / 5), 0.5 - 0.36 * Math.cos((4 * Math.PI * i) / 5)];
    return [Array.from({ length: 6 }, (_, i) => corner(i))];
  },
  spiral() {
    return [Array.from({ length: 60 }, (_, i) => [0.5 + 0.006 * i * Math.cos(i / 4.2), 0.5 + 0.006 * i * Math.sin(i / 4.2)])];
  },
  house() {
    return [[[0.24, 0.84], [0.24, 0.46], [0.5, 0.18], [0.76, 0.46], [0.76, 0.84], [0.24, 0.84]], [[0.24, 0.46], [0.76, 0.46]]];
  },
};

// Long lines are divided, and everything is turned, scaled and shaken a little.
function wobbled(strokes, random) {
  const [angle, stretch] = [0.3 * (random() - 0.5), 1 + 0.24 * (random() - 0.5)];
  const waves = Array.from({ length: 4 }, () => [0.03 * (random() - 0.5), 3 + 6 * random(), 6 * random()]);
  const move = ([x, y]) => {
    const [u, v] = [(x - 0.5) * stretch, (y - 0.5) / stretch];
    const turned = [0.5 + u * Math.cos(angle) - v * Math.sin(angle), 0.5 + u * Math.sin(angle) + v * Math.cos(angle)];
    return turned.map((value, axis) => value + waves.slice(2 * axis, 2 * axis + 2).reduce((sum, [size, rate, shift]) => sum + size * Math.sin(rate * (x + y) * 2 + shift), 0));
  };
  return strokes.map((points) => divided(points).map(move).flat().map((value) => Math.round(1000 * value) / 1000));
}

function divided(points) {
  const all = [points[0]];
  for (let i = 1; i < points.length; i++) {
    const [[x0, y0], [x1, y1]] = [points[i - 1], points[i]];
    const pieces = Math.max(1, Math.ceil(Math.hypot(x1 - x0, y1 - y0) / 0.06));
    for (let k = 1; k <= pieces; k++) all.push([x0 + ((x1 - x0) * k) / pieces, y0 + ((y1 - y0) * k) / pieces]);
  }
  return all;
}

function generator(seed) {
  let state = seed;
  return () => {
    state = (state * 1664525 + 1013904223) % 4294967296;
    return state / 4294967296;
  };
}
