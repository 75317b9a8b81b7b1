"""The `audit` command: from a folder to the table, the page, moves and back."""

import csv
import json
import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.request import Request, urlopen

import numpy as np
import pytest
from PIL import Image
from torch import Tensor

from command_line import Cli, files
from eigen_reptile.cli import auditing
from eigen_reptile.practice.audit.decisions import DecisionFile, Suggestion, content_hash
from eigen_reptile.practice.audit.review import Review
from eigen_reptile.practice.audit.server import Site, serving
from eigen_reptile.practice.backbones import BACKBONES, FunctionBackbone, ImageInput, Vectors

COLOURS = {"red one": (220, 30, 30), "=green": (30, 200, 40), "blue": (20, 40, 230)}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Three colours, eight pictures each, of which one is in the wrong folder, a broken file and a single picture."""
    monkeypatch.setenv("EIGEN_REPTILE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setitem(BACKBONES, "efficientnet-lite0", FunctionBackbone(mean_colours, ImageInput(32)))
    monkeypatch.setitem(BACKBONES, "vectors", Vectors())
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    for name, colour in COLOURS.items():
        place = tmp_path / "my pictures" / name
        place.mkdir(parents=True)
        for number in range(8):
            actual = COLOURS["blue"] if (name, number) == ("red one", 3) else colour
            pixels = np.clip(np.array(actual) + rng.integers(-40, 40, (9, 12 + number, 3)), 0, 255)
            Image.fromarray(pixels.astype(np.uint8)).save(place / f"{number}.png")
    (tmp_path / "my pictures" / "blue" / "broken.jpg").write_bytes(b"\xff\xd8\xff nothing")
    (tmp_path / "my pictures" / "single").mkdir()
    Image.new("L", (5, 5), 128).save(tmp_path / "my pictures" / "single" / "grey.gif")
    return "my pictures"


def mean_colours(x: Tensor) -> Tensor:
    return x.mean((2, 3))


def accept(out: str, suspect: dict[str, str]) -> None:
    path = suspect["path"]
    suggestion = Suggestion(path, content_hash(Path("my pictures") / path), suspect["given"], suspect["suggested"])
    DecisionFile(Path(out), [suggestion]).decide(0, "accept")


def test_finds_the_wrong_label_and_writes_a_table(cli: Cli, folder: str) -> None:
    done = cli("audit", folder, "--no-page")
    assert done.code == 0
    assert "25 labels in 4 classes, about 1 expected to be wrong" in done.out
    assert "1 of them cannot be judged" in done.out
    assert "of the 25 least trusted, about 1 are" in done.out
    assert "broken.jpg" in done.err
    with Path("my pictures-audit/labels.csv").open(newline="") as file:
        _, first, *_, last = csv.reader(file)
    assert first[:3] == ["red one/3.png", "red one", "blue"]
    assert first[4].startswith("blue/")
    assert last == ["single/grey.gif", "single", "single", "", ""]


def test_json_apply_and_undo(cli: Cli, folder: str) -> None:
    found = json.loads(cli("audit", folder, "--json", "--out", "out").out)
    assert found["suspects"][0]["path"] == "red one/3.png"
    assert found["labels"] == 25
    assert found["not_judged"] == 1
    before = files(folder)
    assert "nothing to move" in cli("audit", folder, "--out", "out", "--apply").out
    accept("out", found["suspects"][0])
    assert (
        "would move red one/3.png to blue/3-1.png" in cli("audit", folder, "--out", "out", "--apply", "--dry-run").out
    )
    assert files(folder) == before
    done = cli("audit", folder, "--out", "out", "--apply")
    assert "moved 1 file\n" in done.out
    assert "eigen-reptile audit 'my pictures' --out out --undo" in done.out
    assert Path("my pictures/blue/3-1.png").exists()
    assert not Path("my pictures/red one/3.png").exists()
    assert json.loads(cli("audit", folder, "--out", "out", "--undo", "--json").out)["moved"] == [
        {"from": "blue/3-1.png", "to": "red one/3.png"}
    ]
    assert files(folder) == before
    assert "nothing to undo" in cli("audit", folder, "--out", "out", "--undo").out


def test_what_cannot_be_moved_is_one_line_and_a_failure(cli: Cli, folder: str) -> None:
    found = json.loads(cli("audit", folder, "--json").out)
    accept("my pictures-audit", found["suspects"][0])
    Path("my pictures/red one/3.png").unlink()
    done = cli("audit", folder, "--apply")
    assert done.code == 1
    assert "did not move red one/3.png: it is no longer there" in done.out
    assert done.problem() == "eigen-reptile: 1 of 1 files were not moved"


def test_page_is_served_until_ctrl_c(cli: Cli, folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[object] = []

    def visit(site: Site) -> None:
        time.sleep(0.5)  # until the command waits
        state = json.loads(urlopen(f"{site.address}state", timeout=20).read())
        body = json.dumps({"suspect": 0, "verdict": "accept"}).encode()
        decision = Request(f"{site.address}decide", body, {"Content-Type": "application/json"})
        answers.extend([urlopen(decision, timeout=20).status, state["suspects"][0]["path"]])
        os.kill(os.getpid(), signal.SIGINT)

    @contextmanager
    def visited(review: Review, port: int) -> Iterator[Site]:
        with serving(review, port) as site:
            visitor = threading.Thread(target=visit, args=(site,))
            visitor.start()
            yield site
            visitor.join()

    monkeypatch.setattr(auditing, "serving", visited)
    done = cli("audit", folder)
    assert answers == [200, "red one/3.png"]
    assert done.code == 0
    assert "http://127.0.0.1:" in done.out
    assert "1 accepted, 0 rejected" in done.out
    assert "to move the accepted files: eigen-reptile audit 'my pictures' --apply" in done.out
    assert "moved 1 file\n" in cli("audit", folder, "--apply").out


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        (["missing"], "there is no folder missing"),
        (["my pictures", "--apply", "--undo"], "choose one of --apply and --undo"),
        (["my pictures", "--dry-run"], "--dry-run goes with --apply or --undo"),
        (["my pictures", "--out", "my pictures/out"], "--out must be outside of the folder of the classes"),
        (["my pictures", "--out", "my pictures"], "--out must be outside of the folder of the classes"),
        (["my pictures", "--apply"], "there is no audit in"),
        (["my pictures", "--below", "2", "--no-page"], "--below must be above 0 and at most 1, not 2.0"),
        (["my pictures", "--port", "70000"], "--port must be from 0 to 65535"),
        (["my pictures/blue", "--no-page"], "there are no images in my pictures/blue"),
        (["my pictures", "--appply"], "did you mean --apply?"),
        (["my pictures", "--backbone", "nothing"], "--backbone must be efficientnet-lite0"),
        (["my pictures", "--backbone", "vectors"], "--backbone must take images, but vectors takes vectors"),
    ],
)
def test_wrong_arguments_are_one_line(cli: Cli, folder: str, args: Sequence[str], problem: str) -> None:
    done = cli("audit", *args)
    assert done.code == 2
    assert problem in done.problem()


def test_one_class_only(cli: Cli, folder: str) -> None:
    Path("one/class").mkdir(parents=True)
    Image.new("L", (5, 5), 128).save("one/class/x.png")
    Image.new("L", (5, 5), 12).save("one/class/y.png")
    done = cli("audit", "one")
    assert done.code == 2
    assert "only among several classes" in done.problem()
