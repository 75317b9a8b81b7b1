"""The page in a real browser: drawing, wrong labels, what is kept, and what it looks like."""

import base64
import json
import math
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from urllib.parse import urlparse

import numpy as np
import pytest
from playwright.sync_api import Browser, BrowserContext, Locator, Page, Route, expect

from demo_page import (
    PATIENCE,
    circle,
    cross,
    dense,
    draw,
    learnt,
    opened,
    scores,
    show_photographs,
    square,
    teach,
    tile,
    triangle,
    try_out,
)
from demo_server import Served

AXE = Path(os.environ.get("AXE", "/nowhere"))
"""axe.min.js of the npm package axe-core."""
FIGURES = Path(__file__).parents[2] / "docs" / "figures"
SERIOUS = ("serious", "critical")
STAR = [dense([(0.5 + 0.34 * math.sin(0.8 * math.pi * i), 0.5 - 0.34 * math.cos(0.8 * math.pi * i)) for i in range(6)])]
WALLS = [(0.25, 0.8), (0.25, 0.45), (0.5, 0.2), (0.75, 0.45), (0.75, 0.8), (0.25, 0.8)]
HOUSE = [dense(WALLS), dense([(0.25, 0.45), (0.75, 0.45)])]
SPIRAL = [[(0.5 + 0.005 * i * math.cos(i / 5), 0.5 + 0.005 * i * math.sin(i / 5)) for i in range(70)]]


def teach_both(page: Page, rng: np.random.Generator, each: int = 3) -> None:
    for _ in range(each):
        teach(page, "A", circle(rng))
        teach(page, "B", cross(rng))
    learnt(page)


def test_wrong_labels_are_found_and_survived(page: Page) -> None:
    """Two classes of three examples and ten tests, by mouse; then one label is changed, and changed back."""
    asked: list[str] = []
    page.context.on("request", lambda request: asked.append(request.url))
    rng = np.random.default_rng(0)
    for _ in range(3):
        teach(page, "A", square(rng))
        teach(page, "B", triangle(rng))
    for _ in range(5):
        try_out(page, "A", square(rng))
        try_out(page, "B", triangle(rng))
    assert min(scores(page, 10)) >= 9
    course = page.get_by_role("img", name="As labelled; your tests dashed").locator("polyline.dashed")
    page.wait_for_function(
        "() => [...document.querySelectorAll('#course .dashed')].at(-1)?.points.numberOfItems === 11"
    )
    expect(course).to_have_count(2)
    assert share_shown(course.last) >= 0.9
    tile(page, "A", 3).click()
    page.locator("#editor-labels").get_by_role("button", name="B", exact=True).click()
    expect(page.locator("#notice")).to_contain_text("Probably a wrong label: “B” number", timeout=PATIENCE)
    expect(page.locator("#notice")).to_contain_text("looks like “A”")
    expect(page.locator(".tile.doubted")).to_have_count(1)
    believing, trusting = scores(page, 10)
    assert trusting >= 9
    assert believing < trusting
    page.locator("#repair").click()
    expect(page.locator("#notice")).to_have_text("Every label looks right.", timeout=PATIENCE)
    assert {urlparse(url).hostname for url in asked} == {"127.0.0.1"}


def share_shown(line: Locator) -> float:
    """Where a line of the first chart ends, between the grid lines of 0 and of 1."""
    end, bottom, top = map(
        float,
        line.evaluate("""(line) => {
      const grid = [...line.ownerSVGElement.querySelectorAll('.grid')].map((one) => one.y1.baseVal.value);
      return [line.points.getItem(line.points.numberOfItems - 1).y, Math.max(...grid), Math.min(...grid)];
    }"""),
    )
    return (bottom - end) / (bottom - top)


def test_probabilities_follow_the_strokes(page: Page) -> None:
    rng = np.random.default_rng(1)
    teach_both(page, rng)
    draw(page, "test", circle(rng))
    best = page.locator(".answer li.best span")
    expect(best).to_have_text(["A", "A"])
    page.get_by_role("button", name="Clear: Draw a test").click()
    expect(best).to_have_count(0)
    draw(page, "test", cross(rng))
    expect(best).to_have_text(["B", "B"])
    page.get_by_role("button", name="Undo the last line: Draw a test").click()
    expect(page.locator("#test-pad .empty")).to_be_hidden()
    expect(page.locator("#spoken")).to_contain_text("percent")
    page.locator("#steps").fill("0")
    expect(page.locator("#steps-shown")).to_have_text("0 steps")
    expect(page.locator(".side.a .answer b")).to_have_text(["50 %", "50 %"])


def test_touch_and_keyboard(browser: Browser, served: Served) -> None:
    with browser.new_context(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True) as context:
        page = opened(context.new_page(), served.address)
        assert page.evaluate("document.documentElement.scrollWidth") == 390
        canvas = page.locator("#teach-pad canvas")
        box = canvas.bounding_box()
        assert box is not None
        touch = context.new_cdp_session(page)
        points = [
            {"x": box["x"] + share * box["width"], "y": box["y"] + share * box["height"]} for share in (0.2, 0.5, 0.8)
        ]
        touch.send("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": points[:1]})
        for point in points[1:]:
            touch.send("Input.dispatchTouchEvent", {"type": "touchMove", "touchPoints": [point]})
        touch.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
        expect(page.get_by_role("button", name="Clear: Draw an example")).to_be_enabled()
        page.wait_for_timeout(600)  # a tap that follows a swipe at once would only end its momentum
        page.locator("#teach-labels").get_by_role("button", name="A", exact=True).tap()
        expect(page.locator("[data-class] .tile")).to_have_count(1)
        canvas.focus()
        for key in (" ", *["ArrowRight"] * 5, *["ArrowDown"] * 5, " ", "ArrowLeft", " ", "ArrowUp", " ", "Backspace"):
            page.keyboard.press(key)
        expect(page.locator("#teach-pad [role=status]")).to_have_text("Pen up, column 14, row 14")
        page.keyboard.press("Enter")
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        expect(page.locator("[data-class]").nth(1).locator(".tile")).to_have_count(1)
        strokes = page.evaluate("JSON.parse(localStorage.getItem('eigen-reptile drawings')).examples[1].strokes")
        assert len(strokes) == 1
        assert strokes[0][:2] == [0.5, 0.5]
        assert strokes[0][-2:] == [0.75, 0.75]


def test_a_reload_keeps_everything(page: Page) -> None:
    rng = np.random.default_rng(2)
    page.locator("[data-class] input[type=text]").first.fill("ring")
    teach(page, "ring", circle(rng))
    teach(page, "ring", circle(rng))
    teach(page, "B", cross(rng))
    learnt(page)
    try_out(page, "B", cross(rng))
    page.locator(".side.b select").select_option("prototypes")
    learnt(page)
    page.reload()
    learnt(page)
    expect(page.locator("[data-class] input[type=text]").first).to_have_value("ring")
    expect(page.locator(".tile")).to_have_count(3)
    expect(page.locator(".tried")).to_have_count(1)
    expect(page.locator(".side.b select")).to_have_value("prototypes")
    scores(page, 1)


def test_two_browsers_and_a_slow_server(browser: Browser, page: Page, served: Served) -> None:
    """Neither sees what the other does, and answers that come late do not mix up what is shown."""
    rng = np.random.default_rng(3)
    with browser.new_context(viewport={"width": 1280, "height": 900}) as context:
        other = opened(context.new_page(), served.address)

        def late(route: Route) -> None:
            other.wait_for_timeout(400)
            route.continue_()

        other.route("**/api/*", late)
        teach(page, "A", cross(rng))
        teach(other, "A", circle(rng))
        teach(page, "B", circle(rng))
        teach(other, "B", cross(rng))
        for one, first in ((page, "A"), (other, "B")):
            learnt(one)
            expect(one.locator(".tile")).to_have_count(2)
            draw(one, "test", cross(rng))
            expect(one.locator(".side.b .answer li.best span")).to_have_text(first)


def test_a_model_is_saved_used_and_opened(page: Page, tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    teach_both(page, rng)
    page.locator("#more").click()
    with page.expect_download(timeout=2 * PATIENCE) as download:
        page.locator("#save-model").click()
    model = tmp_path / "drawings.model"
    download.value.save_as(model)
    with page.expect_download(timeout=2 * PATIENCE) as download:
        page.locator("#save-drawings").click()
    with zipfile.ZipFile(download.value.path()) as archive:
        archive.extractall(tmp_path / "pictures")
    command = [sys.executable, "-m", "eigen_reptile", "predict", str(model), str(tmp_path / "pictures"), "--json"]
    answer = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert len(answer["predictions"]) == 6
    assert all(one["answer"] == Path(one["path"]).parent.name for one in answer["predictions"])
    page.once("dialog", lambda dialog: dialog.accept())
    page.locator("#start-over").click()
    expect(page.locator(".tile")).to_have_count(0)
    page.locator("#open-model").set_input_files(model)
    expect(page.locator(".tile")).to_have_count(6)
    learnt(page)


def test_pictures_are_dropped(page: Page, tmp_path: Path) -> None:
    from PIL import Image, ImageDraw

    for name, colour in (("dark", "white"), ("light", "black")):
        image = Image.new("RGB", (300, 200), colour)
        ImageDraw.Draw(image).ellipse((120, 40, 220, 140), outline="grey", width=9)
        image.save(tmp_path / f"{name}.png")
    (tmp_path / "no picture.png").write_bytes(b"nothing")
    page.locator("[data-class] input[type=file]").first.set_input_files([*tmp_path.glob("*.png")])
    expect(page.locator(".tile")).to_have_count(2)
    expect(page.locator("#notice")).to_contain_text("no picture.png cannot be read")
    drawings = page.evaluate(
        "JSON.parse(localStorage.getItem('eigen-reptile drawings')).examples.map((one) => one.drawing)"
    )
    first, second = (np.frombuffer(base64.b64decode(text), dtype=np.uint8).astype(int) for text in drawings)
    assert np.abs(np.subtract(first, second)).mean() < 12
    ink = np.argwhere(np.reshape(first, (28, 28)) > 128)
    assert ink.min() in (3, 4, 5)
    assert ink.max() in (22, 23, 24)


def test_sine(context: BrowserContext, served: Served) -> None:
    page = opened(context.new_page(), served.address, "sine")
    lines = page.locator("#fit polyline")
    expect(lines).to_have_count(2)
    before = lines.first.get_attribute("points")
    handle = page.get_by_role("slider", name="Point 4", exact=True)
    value = float(handle.get_attribute("aria-valuenow") or "nan")
    handle.press("ArrowUp")
    expect(handle).to_have_attribute("aria-valuenow", str(round(value + 0.2, 2)))
    expect(lines.first).not_to_have_attribute("points", before or "")
    shares = [
        float(text.removesuffix(" %")) for text in page.locator("#sine tbody td:nth-child(2)").all_text_contents()
    ]
    assert len(shares) == 3
    assert min(shares[:2]) > shares[2]


def test_runs_are_live(context: BrowserContext, served: Served, live_run: Path) -> None:
    page = opened(context.new_page(), served.address, "runs")
    page.get_by_role("checkbox", name="first").check()
    for wrong in ("Query of class 1, taken for class 2", "Query of class 2, taken for nothing"):
        expect(page.get_by_role("img", name=wrong, exact=True).first).to_be_visible(timeout=PATIENCE)
    line = page.get_by_role("img", name="Explained variance ratio of the main direction").locator("polyline").first
    expect(line).to_have_count(1)
    points = (line.get_attribute("points") or "").split()
    with (live_run / "metrics.jsonl").open("a") as file:
        file.write('{"kind": "train", "step": 820, "explained_variance_ratio": 0.5}\n{"kind": "tr')
    page.wait_for_function(
        "(before) => [...document.querySelectorAll('#runs polyline')].some((one) => one.points.numberOfItems > before)",
        arg=len(points),
        timeout=PATIENCE,
    )


@pytest.mark.parametrize("view", ["draw", "sine", "runs", "pictures"])
def test_accessibility_and_screenshots(browser: Browser, served: Served, tmp_path: Path, view: str) -> None:
    """No serious violation in light and dark, wide and narrow; pictures are kept if SCREENSHOTS is set."""
    if not AXE.is_file():
        reason = "AXE does not name axe.min.js"
        pytest.fail(reason) if os.environ.get("CI") == "true" else pytest.skip(reason)
    for width, height in ((1280, 900), (390, 844)):
        with browser.new_context(viewport={"width": width, "height": height}) as context:
            page = opened(context.new_page(), served.address, view)
            prepare(page, view, tmp_path)
            for scheme in ("light", "dark"):
                page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
                page.wait_for_timeout(150)
                page.evaluate(AXE.read_text())
                found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
                bad = [
                    (one["id"], [node["html"][:200] for node in one["nodes"]])
                    for one in found
                    if one["impact"] in SERIOUS
                ]
                assert not bad
                if os.environ.get("SCREENSHOTS"):
                    page.screenshot(path=FIGURES / f"demo-{view}-{width}-{scheme}.png", full_page=True)


def prepare(page: Page, view: str, folder: Path) -> None:
    """Something to look at."""
    if view == "draw":
        page.locator("#sample").click()
        learnt(page)
        tile(page, "house", 2).click()
        page.locator("#editor-labels").get_by_role("button", name="star", exact=True).click()
        expect(page.locator(".tile.doubted")).to_have_count(1)
        for strokes, name in ((STAR, "star"), (HOUSE, "house"), (SPIRAL, "spiral")):
            try_out(page, name, strokes)
        scores(page, 3)
        draw(page, "test", HOUSE)
        expect(page.locator(".answer li.best")).to_have_count(2)
        page.evaluate("document.activeElement.blur(); scrollTo(0, 0)")
    elif view == "sine":
        expect(page.locator("#fit polyline")).to_have_count(2)
    elif view == "pictures":
        show_photographs(page, folder)
        expect(page.locator(".tile.doubted")).to_have_count(1, timeout=PATIENCE)
        page.evaluate("document.activeElement.blur(); scrollTo(0, 0)")
    else:
        page.get_by_role("checkbox", name="first").check()
        expect(page.locator("#runs .chart svg").first).to_be_visible()
        expect(page.locator("#runs-examples img").first).to_be_visible(timeout=PATIENCE)
        page.mouse.move(0, 0)
