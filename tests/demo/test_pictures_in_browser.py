"""Photographs and the camera, in a real browser."""

import json
import subprocess
import sys
from pathlib import Path

from playwright.sync_api import BrowserContext, Page, expect

from demo_page import PATIENCE, opened, show_photographs, tile
from demo_server import Served


def test_photographs(context: BrowserContext, served: Served, tmp_path: Path) -> None:
    """A wrong label is found; a reload keeps all; the saved model says the same of the files as the page."""
    page = opened(context.new_page(), served.address, "pictures")
    expect(page.get_by_role("tab", name="Pictures")).to_be_visible()
    show_photographs(page, tmp_path)
    notice = page.locator("#pictures .notice")
    expect(notice).to_have_text("Probably a wrong label: “stripes” number 5 looks like “chequers”.", timeout=PATIENCE)
    page.reload()
    tile(page, "stripes", 5).click()
    page.locator("#editor-labels").get_by_role("button", name="chequers", exact=True).click()
    expect(notice).to_have_text("Every label looks right.", timeout=PATIENCE)
    (tmp_path / "none.png").write_bytes(b"nothing")
    page.locator("#query-file").set_input_files(tmp_path / "none.png")
    expect(notice).to_have_text("none.png cannot be read as a picture.")
    with page.expect_download(timeout=2 * PATIENCE) as download:
        page.locator("#save-pictures").click()
    download.value.save_as(tmp_path / "pictures.model")
    (tmp_path / "none.png").unlink()
    command = [sys.executable, "-m", "eigen_reptile", "predict", str(tmp_path / "pictures.model"), str(tmp_path)]
    answer = json.loads(subprocess.run([*command, "--json"], capture_output=True, text=True, check=True).stdout)
    assert len(answer["predictions"]) == 10
    assert all(Path(one["path"]).name.startswith(one["answer"]) for one in answer["predictions"])


def test_a_camera_runs_only_while_its_window_is_open(page: Page) -> None:
    page.evaluate("""() => {
      const devices = navigator.mediaDevices;
      const ask = devices.getUserMedia.bind(devices);
      window.asked = [];
      devices.getUserMedia = async (wish) => { const stream = await ask(wish); asked.push(stream); return stream; };
    }""")
    states = "asked.flatMap((stream) => stream.getTracks().map((track) => track.readyState))"
    for taken, press in enumerate(("Stop", "Take it")):
        page.get_by_role("button", name="Take a picture for A with the camera").click()
        expect(page.get_by_role("button", name="Take it")).to_be_enabled()
        assert page.evaluate(states)[-1] == "live"
        page.get_by_role("button", name=press, exact=True).click()
        expect(page.locator("[data-class] .tile")).to_have_count(taken)
        page.wait_for_function(f"() => {states}.join() === '{','.join(['ended'] * (taken + 1))}'", timeout=PATIENCE)


def test_without_the_extra_one_command_is_shown_in_place_of_the_view(context: BrowserContext, served: Served) -> None:
    page = context.new_page()
    page.route("**/api/about", lambda route: route.fulfill(json={"version": "1", "extras": {"vision": False}}))
    opened(page, served.address)
    expect(page.locator("#no-pictures code")).to_have_text("pip install 'eigen-reptile[demo,vision]'")
    expect(page.locator("#no-pictures")).to_be_visible()
    expect(page.locator("#tab-pictures")).to_be_hidden()
