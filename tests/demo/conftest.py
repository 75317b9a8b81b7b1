"""One server and one browser for all tests of the page."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from demo_page import opened
from demo_server import Served, make_run, start, stop

CHROMIUM = shutil.which("chromium")
ARGS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
    *("--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream"),
]


@pytest.fixture(scope="session")
def live_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One of two runs under the root that the server was given."""
    root = tmp_path_factory.mktemp("runs")
    make_run(root / "first")
    make_run(root / "deeper" / "second", slowness=1.8)
    return root / "first"


@pytest.fixture(scope="session")
def served(live_run: Path) -> Iterator[Served]:
    found = start("--runs", str(live_run.parent))
    yield found
    stop(found)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        reason = "there is no chromium"
        pytest.fail(reason) if os.environ.get("CI") == "true" else pytest.skip(reason)
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGS)
        yield found
        found.close()


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    found = browser.new_context(viewport={"width": 1280, "height": 900})
    yield found
    found.close()


@pytest.fixture
def page(context: BrowserContext, served: Served) -> Page:
    return opened(context.new_page(), served.address)
