// Line charts as SVG, drawn at the width that they have.

const SVG = "http://www.w3.org/2000/svg";
const LEFT = 40;
const RIGHT = 10;
const TOP = 24;
const BOTTOM = 22;

export function element(name, attributes = {}, text = "") {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text) made.textContent = text;
  return made;
}

// Charts are drawn again when their place changes its width.
export function keepDrawn(host, draw) {
  let width = 0;
  new ResizeObserver(() => {
    if (host.clientWidth && host.clientWidth !== width) {
      width = host.clientWidth;
      draw();
    }
  }).observe(host);
}

// `series` are lines { points: [[x, y], ...], kind: "a" | "b" | "c", dashed }; `now` is an abscissa to mark.
export function lineChart({ width, height = 150, title, series, x, y, format = String, formatX = String, now = null, description }) {
  const svg = element("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": description ?? title });
  const toX = (value) => LEFT + ((value - x[0]) / (x[1] - x[0] || 1)) * (width - LEFT - RIGHT);
  const toY = (value) => height - BOTTOM - ((value - y[0]) / (y[1] - y[0] || 1)) * (height - TOP - BOTTOM);
  svg.append(element("text", { x: 0, y: 13, class: "title" }, title));
  for (const value of [y[0], (y[0] + y[1]) / 2, y[1]]) {
    svg.append(element("line", { x1: LEFT, x2: width - RIGHT, y1: toY(value), y2: toY(value), class: "grid" }));
    svg.append(element("text", { x: LEFT - 6, y: toY(value) + 4, "text-anchor": "end" }, format(value)));
  }
  for (const [place, value] of [["start", x[0]], ["end", x[1]]]) {
    svg.append(element("text", { x: toX(value), y: height - 6, "text-anchor": place }, formatX(value)));
  }
  if (now !== null) svg.append(element("line", { x1: toX(now), x2: toX(now), y1: TOP - 4, y2: height - BOTTOM, class: "now" }));
  for (const { points, kind, dashed } of series) {
    const finite = points.filter(([, value]) => Number.isFinite(value));
    if (!finite.length) continue;
    const path = finite.map(([px, py]) => `${toX(px).toFixed(1)},${toY(Math.min(y[1], Math.max(y[0], py))).toFixed(1)}`);
    if (path.length === 1) {
      const [cx, cy] = path[0].split(",");
      svg.append(element("circle", { cx, cy, r: 3, class: `${kind}-dot` }));
    }
    svg.append(element("polyline", { points: path.join(" "), class: `line ${kind}-line ${dashed ? "dashed" : ""}` }));
    const marked = now === null ? null : finite.find(([px]) => px >= now) ?? finite.at(-1);
    if (marked) svg.append(element("circle", { cx: toX(now), cy: toY(Math.min(y[1], Math.max(y[0], marked[1]))), r: 4, class: `${kind}-dot` }));
  }
  return svg;
}

export function legend(entries) {
  const list = document.createElement("ul");
  list.className = "legend";
  for (const { name, kind } of entries) {
    const item = document.createElement("li");
    item.className = kind;
    item.textContent = name;
    list.append(item);
  }
  return list;
}

// Round numbers just below and above all values.
export function rangeOf(values, least = 0) {
  const finite = values.filter(Number.isFinite);
  if (!finite.length) return [0, 1];
  const [low, high] = [Math.min(least, ...finite), Math.max(...finite)];
  const unit = 10 ** Math.floor(Math.log10(high - low || 1));
  const top = Math.ceil((high - low) / unit / 2) * 2 * unit;
  return [low, low + (top || 1)];
}
