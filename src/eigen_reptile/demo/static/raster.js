// Drawings: strokes on the page, and 28 x 28 bytes of light ink on black for the networks, as in their training.

export const SIDE = 28;
const FINE = 4; // each pixel is the mean of 4 x 4
const BOX = 20; // a drawing fills this much of the 28 pixels, as the glyphs of the training do
const WIDTH = 2.3; // of a line, in pixels
const SMALLEST = 0.14; // a dot is not blown up to the whole square
const MOST_IMAGE = 256;

// Strokes are flat lists x0, y0, x1, y1, ... between 0 and 1.
function boundsOf(strokes) {
  let [left, top, right, bottom] = [Infinity, Infinity, -Infinity, -Infinity];
  for (const stroke of strokes) {
    for (let i = 0; i < stroke.length; i += 2) {
      left = Math.min(left, stroke[i]);
      right = Math.max(right, stroke[i]);
      top = Math.min(top, stroke[i + 1]);
      bottom = Math.max(bottom, stroke[i + 1]);
    }
  }
  return { x: (left + right) / 2, y: (top + bottom) / 2, extent: Math.max(right - left, bottom - top, SMALLEST) };
}

// A smooth line through the points of a stroke.
function trace(context, stroke, map) {
  const [x0, y0] = map(stroke[0], stroke[1]);
  context.beginPath();
  context.moveTo(x0, y0);
  if (stroke.length === 2) context.lineTo(x0 + 0.01, y0);
  for (let i = 2; i < stroke.length; i += 2) {
    const [x, y] = map(stroke[i], stroke[i + 1]);
    if (i + 3 < stroke.length) {
      const [nextX, nextY] = map(stroke[i + 2], stroke[i + 3]);
      context.quadraticCurveTo(x, y, (x + nextX) / 2, (y + nextY) / 2);
    } else {
      context.lineTo(x, y);
    }
  }
  context.stroke();
}

function prepare(context, width, colour) {
  context.lineWidth = width;
  context.lineCap = context.lineJoin = "round";
  context.strokeStyle = colour;
}

export function paintStrokes(context, strokes, size, colour, width = 0.026) {
  prepare(context, size * width, colour);
  for (const stroke of strokes) trace(context, stroke, (x, y) => [x * size, y * size]);
}

export function rasterise(strokes) {
  const side = SIDE * FINE;
  const context = canvasOf(side).getContext("2d", { willReadFrequently: true });
  context.fillStyle = "#000";
  context.fillRect(0, 0, side, side);
  prepare(context, WIDTH * FINE, "#fff");
  const { x: middleX, y: middleY, extent } = boundsOf(strokes);
  const scale = (BOX * FINE) / extent;
  const map = (x, y) => [(x - middleX) * scale + side / 2, (y - middleY) * scale + side / 2];
  for (const stroke of strokes) trace(context, stroke, map);
  const fine = context.getImageData(0, 0, side, side).data;
  return reduced((row, column) => fine[4 * (row * side + column)]);
}

function reduced(valueAt) {
  const bytes = new Uint8Array(SIDE * SIDE);
  for (let row = 0; row < SIDE; row++) {
    for (let column = 0; column < SIDE; column++) {
      let sum = 0;
      for (let i = 0; i < FINE; i++) for (let j = 0; j < FINE; j++) sum += valueAt(row * FINE + i, column * FINE + j);
      bytes[row * SIDE + column] = Math.round(sum / (FINE * FINE));
    }
  }
  return bytes;
}

// A picture from a file or a camera: whatever differs from its border is ink, cut out and scaled like a drawing.
export async function rasteriseImage(file) {
  const bitmap = await createImageBitmap(file);
  const shrink = Math.min(1, MOST_IMAGE / Math.max(bitmap.width, bitmap.height));
  const [width, height] = [bitmap.width, bitmap.height].map((one) => Math.max(1, Math.round(one * shrink)));
  const ink = inkOf(onWhite(bitmap, width, height).getImageData(0, 0, width, height).data, width, height);
  return scaledToBox(ink, width, height);
}

// The picture at this size, upright, with white where it is transparent.
export function onWhite(bitmap, width, height) {
  const context = canvasOf(width, height).getContext("2d", { willReadFrequently: true });
  context.fillStyle = "#fff";
  context.fillRect(0, 0, width, height);
  context.imageSmoothingQuality = "high";
  context.drawImage(bitmap, 0, 0, width, height);
  bitmap.close();
  return context;
}

function inkOf(data, width, height) {
  const grey = new Float32Array(width * height);
  for (let i = 0; i < grey.length; i++) grey[i] = 0.3 * data[4 * i] + 0.59 * data[4 * i + 1] + 0.11 * data[4 * i + 2];
  const border = [];
  for (let x = 0; x < width; x++) border.push(grey[x], grey[(height - 1) * width + x]);
  for (let y = 0; y < height; y++) border.push(grey[y * width], grey[y * width + width - 1]);
  const paper = border.sort((a, b) => a - b)[border.length >> 1];
  let most = 32; // less contrast than this is noise
  for (let i = 0; i < grey.length; i++) most = Math.max(most, (grey[i] = Math.abs(grey[i] - paper)));
  return grey.map((value) => Math.min(1, Math.max(0, (value / most - 0.25) / 0.5)));
}

function scaledToBox(ink, width, height) {
  let [left, top, right, bottom] = [width, height, 0, 0];
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      if (ink[y * width + x] > 0.5) {
        [left, right] = [Math.min(left, x), Math.max(right, x)];
        [top, bottom] = [Math.min(top, y), Math.max(bottom, y)];
      }
    }
  }
  if (left > right) throw new Error("nothing to see in this picture");
  const extent = Math.max(right - left + 1, bottom - top + 1, SMALLEST * Math.max(width, height));
  const source = canvasOf(width, height);
  const pixels = new ImageData(width, height);
  ink.forEach((value, i) => pixels.data.set([255, 255, 255, Math.round(255 * value)], 4 * i));
  source.getContext("2d").putImageData(pixels, 0, 0);
  const side = SIDE * FINE;
  const context = canvasOf(side).getContext("2d", { willReadFrequently: true });
  const scale = (BOX * FINE) / extent;
  context.imageSmoothingQuality = "high";
  context.setTransform(scale, 0, 0, scale, side / 2 - (scale * (left + right + 1)) / 2, side / 2 - (scale * (top + bottom + 1)) / 2);
  context.drawImage(source, 0, 0);
  const fine = context.getImageData(0, 0, side, side).data;
  return reduced((row, column) => fine[4 * (row * side + column) + 3]);
}

// A small picture of an example, in the ink of the page.
export function paintExample(canvas, example) {
  const ratio = window.devicePixelRatio || 1;
  const size = Number(canvas.dataset.size ?? canvas.width);
  canvas.dataset.size = size;
  canvas.width = canvas.height = Math.round(size * ratio);
  const context = canvas.getContext("2d");
  if (example.picture) return paintPicture(context, example.picture);
  const ink = inkColour();
  if (example.strokes) {
    const { x: middleX, y: middleY, extent } = boundsOf(example.strokes);
    const scale = (0.72 * canvas.width) / extent;
    prepare(context, 0.055 * canvas.width, ink);
    const half = canvas.width / 2;
    for (const stroke of example.strokes) trace(context, stroke, (x, y) => [(x - middleX) * scale + half, (y - middleY) * scale + half]);
    return;
  }
  const small = canvasOf(SIDE);
  const bytes = fromText(example.drawing);
  const pixels = new ImageData(SIDE, SIDE);
  bytes.forEach((value, i) => { pixels.data[4 * i + 3] = value; });
  const smallContext = small.getContext("2d");
  smallContext.putImageData(pixels, 0, 0);
  smallContext.globalCompositeOperation = "source-in";
  smallContext.fillStyle = ink;
  smallContext.fillRect(0, 0, SIDE, SIDE);
  context.imageSmoothingQuality = "high";
  context.drawImage(small, 0, 0, canvas.width, canvas.width);
}

const decoded = new Map(); // by data URL, so that a picture that was seen before is painted at once

function paintPicture(context, source) {
  if (!decoded.has(source)) decoded.set(source, Object.assign(new Image(), { src: source }));
  const image = decoded.get(source);
  const paint = () => context.drawImage(image, 0, 0, context.canvas.width, context.canvas.height);
  if (image.complete) paint();
  else image.decode().then(paint, () => {});
}

export function inkColour() {
  return getComputedStyle(document.documentElement).getPropertyValue("--ink").trim();
}

export function toText(bytes) {
  let text = "";
  for (let i = 0; i < bytes.length; i += 4096) text += String.fromCharCode(...bytes.subarray(i, i + 4096));
  return btoa(text);
}

export function fromText(text) {
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}

function canvasOf(width, height = width) {
  const canvas = document.createElement("canvas");
  canvas.width = width;
  canvas.height = height;
  return canvas;
}
