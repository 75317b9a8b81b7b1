"""Drawings of circles and crosses, as the page sends them."""

import base64
import math
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

SIDE = 28
FINE = 8


def circle(rng: np.random.Generator) -> str:
    x, y, a, b = *rng.uniform(13, 15, 2), *rng.uniform(7, 10, 2)
    turns = np.linspace(0, 2 * math.pi, 40)
    return drawn([np.stack([x + a * np.cos(turns), y + b * np.sin(turns)], axis=1)])


def cross(rng: np.random.Generator) -> str:
    ends = np.array([[[5, 5], [23, 23]], [[23, 5], [5, 23]]]) + rng.uniform(-2, 2, size=(2, 2, 2))
    return drawn(list(ends))


def drawn(strokes: list[np.ndarray]) -> str:
    """White lines on black, at eight times the size first."""
    image = Image.new("L", (SIDE * FINE, SIDE * FINE))
    for stroke in strokes:
        ImageDraw.Draw(image).line([tuple(point) for point in (stroke * FINE).tolist()], 255, 18, "curve")
    return base64.b64encode(np.asarray(image.reduce(FINE)).tobytes()).decode()


def lesson(wrong: int = 0, each: int = 3) -> dict[str, Any]:
    """Circles, then crosses; the first `wrong` circles are called crosses."""
    rng = np.random.default_rng(0)
    drawings = [draw(rng) for draw in (circle, cross) for _ in range(each)]
    labels = [int(number >= each or number < wrong) for number in range(2 * each)]
    examples = [{"drawing": one, "label": label} for one, label in zip(drawings, labels, strict=True)]
    return {"classes": ["circle", "cross"], "examples": examples}


def queries(each: int = 5) -> list[str]:
    rng = np.random.default_rng(1)
    return [draw(rng) for draw in (circle, cross) for _ in range(each)]
