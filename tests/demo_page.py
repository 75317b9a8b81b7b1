"""What a person does on the page, by a real browser."""

import math
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
from PIL import Image
from playwright.sync_api import Locator, Page, expect

Stroke = list[tuple[float, float]]
PATIENCE = 60_000
"""Milliseconds that a computation may take on a busy machine."""


def circle(rng: np.random.Generator) -> list[Stroke]:
    (x, y), (a, b) = rng.uniform(0.45, 0.55, 2), rng.uniform(0.22, 0.36, 2)
    start = rng.uniform(0, 6)
    turns = np.linspace(start, start + 2 * math.pi, 16)
    return [[(x + a * math.cos(t), y + b * math.sin(t)) for t in turns]]


def cross(rng: np.random.Generator) -> list[Stroke]:
    ends = np.array([[[0.2, 0.2], [0.8, 0.8]], [[0.8, 0.2], [0.2, 0.8]]]) + rng.uniform(-0.07, 0.07, size=(2, 2, 2))
    return [[(float(x), float(y)) for x, y in stroke] for stroke in ends]


def square(rng: np.random.Generator) -> list[Stroke]:
    return [corners(rng, [(0.2, 0.2), (0.8, 0.2), (0.8, 0.8), (0.2, 0.8)])]


def triangle(rng: np.random.Generator) -> list[Stroke]:
    return [corners(rng, [(0.5, 0.2), (0.8, 0.8), (0.2, 0.8)])]


def corners(rng: np.random.Generator, places: list[tuple[float, float]]) -> Stroke:
    moved = [
        (float(x + a), float(y + b)) for (x, y), (a, b) in zip(places, rng.uniform(-0.06, 0.06, (9, 2)), strict=False)
    ]
    return [*moved, moved[0]]


def dense(stroke: Stroke, pieces: int = 8) -> Stroke:
    """With more points on each line, as a mouse that is moved slowly reports them."""
    shares = np.linspace(0, 1, pieces, endpoint=False)
    return [*[(a + (c - a) * t, b + (d - b) * t) for (a, b), (c, d) in pairwise(stroke) for t in shares], stroke[-1]]


def draw(page: Page, pad: str, strokes: Sequence[Stroke]) -> None:
    """With the mouse."""
    canvas = page.locator(f"#{pad}-pad canvas")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    assert box is not None
    for stroke in strokes:
        places = [(box["x"] + x * box["width"], box["y"] + y * box["height"]) for x, y in stroke]
        page.mouse.move(*places[0])
        page.mouse.down()
        for place in places[1:]:
            page.mouse.move(*place)
        page.mouse.up()


def teach(page: Page, label: str, strokes: Sequence[Stroke]) -> None:
    draw(page, "teach", strokes)
    page.locator("#teach-labels").get_by_role("button", name=label, exact=True).click()


def try_out(page: Page, label: str, strokes: Sequence[Stroke]) -> None:
    draw(page, "test", strokes)
    page.locator("#test-labels").get_by_role("button", name=label, exact=True).click()


def learnt(page: Page) -> None:
    """Until all examples have been judged."""
    page.wait_for_function(
        """() => {
          const shown = [...document.querySelectorAll('.tile .trust')].map((one) => one.textContent);
          return shown.length && !shown.includes('…') && !document.querySelector('#draw[aria-busy]');
        }""",
        timeout=PATIENCE,
    )


def scores(page: Page, tests: int) -> list[int]:
    """How many tests each side has right, once all have been answered."""
    page.wait_for_function(
        f"""() => {{
          const scores = [...document.querySelectorAll('.score')].map((one) => one.textContent);
          return scores.every((text) => text.includes(' of {tests} ')) && !document.querySelector('#draw[aria-busy]');
        }}""",
        timeout=PATIENCE,
    )
    return [int(text.split()[0]) for text in page.locator(".score").all_text_contents()]


def tile(page: Page, label: str, number: int) -> Locator:
    return page.get_by_role("button", name=f"{label} {number},")


def opened(page: Page, address: str, view: str = "draw") -> Page:
    page.set_default_timeout(PATIENCE)
    page.goto(f"{address}#{view}")
    return page


def photographs(folder: Path, name: str, count: int) -> list[Path]:
    """Striped or chequered surfaces with noise, each a little different."""
    rng = np.random.default_rng(len(name))
    paths = []
    for number in range(count):
        x, y = np.meshgrid(np.arange(240) + rng.integers(20), np.arange(200))
        pattern = (x // 12) % 2 if name == "stripes" else (x // 30 + y // 30) % 2
        colour = (220, 120, 40) if name == "stripes" else (30, 90, 200)
        pixels = pattern[..., None] * np.array(colour) + rng.normal(20, 12, (200, 240, 3))
        paths.append(folder / f"{name} {number}.png")
        Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(paths[-1])
    return paths


def show_photographs(page: Page, folder: Path) -> None:
    """Two classes of four; one of the second is put into the first. Then a picture of the second is tested."""
    stripes, chequers = (photographs(folder, name, 5) for name in ("stripes", "chequers"))
    for number, (name, paths) in enumerate((("stripes", [*stripes[:4], chequers[0]]), ("chequers", chequers[1:4]))):
        row = page.locator("#pictures [data-class]").nth(number)
        row.locator("input[type=text]").fill(name)
        row.locator("input[type=file]").set_input_files(paths)
        expect(row.locator(".tile")).to_have_count(len(paths), timeout=PATIENCE)
    page.locator("#query-file").set_input_files(chequers[4])
    expect(page.locator("#pictures .answer li.best span")).to_have_text(["chequers", "chequers"], timeout=PATIENCE)
