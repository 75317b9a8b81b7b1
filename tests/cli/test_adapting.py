"""The commands `adapt`, `predict`, `info` and `export`, on pictures of plain colours."""

import csv
import json
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from command_line import Cli
from eigen_reptile import FewShotClassifier
from eigen_reptile.practice.backbones import BACKBONES, Pixels

COLOURS = {"red ones": (210, 30, 30), "green": (30, 210, 30), "blue": (30, 30, 210)}


@pytest.fixture
def pets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three classes of five pictures, of various sizes and modes. The last red one is in the folder of the green."""
    monkeypatch.setenv("EIGEN_REPTILE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setitem(BACKBONES, "tiny", Pixels(4, "RGB"))
    rng = np.random.default_rng(0)
    for name, colour in COLOURS.items():
        folder = tmp_path / "pets" / name
        folder.mkdir(parents=True)
        for number in range(5):
            pixels = np.clip(np.array(colour) + rng.integers(-25, 26, (9 + number, 12, 3)), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).convert("RGBA" if number == 1 else "RGB").save(folder / f"{number}.png")
    (tmp_path / "pets" / "red ones" / "4.png").rename(tmp_path / "pets" / "green" / "wrong.png")
    return tmp_path / "pets"


@pytest.fixture
def model(cli: Cli, pets: Path) -> str:
    printed = cli("adapt", "pets", "--out", "models/m.safetensors", "--backbone", "tiny")
    assert printed.code == 0, printed.err
    return "models/m.safetensors"


def test_adapt_shows_classes_accuracy_and_distrusted_labels(cli: Cli, pets: Path) -> None:
    printed = cli("adapt", "pets", "--out", "m.safetensors", "--backbone", "tiny")
    assert printed.code == 0, printed.err
    for shown in ("red ones", "green/wrong.png", "93.3 % of the labels (70.2 to 98.8, leave-one-out)", "1 distrusted"):
        assert shown in printed.out
    assert printed.out.splitlines()[-1] == (
        "wrote m.safetensors; now try: eigen-reptile predict m.safetensors PICTURES"
    )
    found = json.loads(cli("adapt", "pets", "--out", "m.safetensors", "--backbone", "tiny", "--json").out)
    (suspect,) = found["card"]["suspects"]
    assert (suspect["sample"], suspect["given"], suspect["suggested"]) == ("green/wrong.png", "green", "red ones")
    assert [row["samples"] for row in found["card"]["classes"]] == [5, 6, 4]
    assert not cli("adapt", "pets", "--out", "m.safetensors", "--backbone", "tiny", "--quiet").out


def test_predict_answers_what_python_answers(cli: Cli, pets: Path, model: str) -> None:
    paths = sorted(pets.rglob("*.png"))
    expected = FewShotClassifier.load(model).predict(paths).tolist()
    found = json.loads(cli("predict", model, "pets", "--json").out)
    assert [one["answer"] for one in found["predictions"]] == expected
    printed = cli("predict", model, "pets/blue", "pets/green/wrong.png", "--csv", "a/b.csv")
    assert printed.code == 0, printed.err
    assert "pets/green/wrong.png │ red ones" in printed.out
    with Path("a/b.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["answer"] for row in rows] == ["blue"] * 5 + ["red ones"]
    assert "all 15 pictures" in cli("predict", model, "pets", "--show", "2").out


def test_tables_of_answers_are_harmless_in_spreadsheets(cli: Cli, pets: Path) -> None:
    (pets / "blue").rename(pets / "=blue")
    (pets / "=blue" / "0.png").rename("=SUM(A1).png")
    cli("adapt", "pets", "--out", "m.safetensors", "--backbone", "tiny")
    printed = cli("predict", "m.safetensors", "=SUM(A1).png", "pets/green/0.png", "--csv", "a.csv")
    assert printed.code == 0, printed.err
    rows = [line.split(",")[:2] for line in Path("a.csv").read_text().splitlines()]
    assert rows == [["path", "answer"], ["./=SUM(A1).png", "'=blue"], ["pets/green/0.png", "green"]]


def test_broken_pictures_do_not_stop_the_others(cli: Cli, pets: Path, model: str) -> None:
    Path("broken.jpg").write_text("no picture")
    printed = cli("predict", model, "broken.jpg", "pets/blue/0.png", "missing.png")
    assert printed.code == 1
    assert "blue/0.png" in printed.out
    assert "broken.jpg is not an image" in printed.out
    assert "2 of 3 pictures cannot be read" in printed.problem()
    assert cli("predict", model, "broken.jpg").out == "./broken.jpg is not an image of a known type\n"
    found = json.loads(cli("predict", model, "broken.jpg", "--json").out)
    assert found["predictions"] == []
    assert "broken.jpg" in found["failed"]


def test_hidden_files_are_no_pictures(cli: Cli, pets: Path, model: str) -> None:
    for path in (pets / "blue" / "._0.png", pets / ".trash" / "1.png", pets / "__MACOSX" / "._2.png"):
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"nothing that could be shown")
    printed = cli("predict", model, "pets", "--json")
    assert printed.code == 0, printed.err
    assert len(json.loads(printed.out)["predictions"]) == 15
    assert cli("predict", model, "pets/blue/._0.png").code == 1  # which was named


def test_broken_pictures_and_empty_classes_are_named_and_skipped(cli: Cli, pets: Path) -> None:
    (pets / "blue" / "broken.png").write_bytes(b"")
    (pets / "green" / "huge.png").write_bytes(png_that_claims(30_000))
    (pets / "empty").mkdir()
    options = ("adapt", "pets", "--out", "m.safetensors", "--backbone", "tiny")
    printed = cli(*options)
    assert printed.code == 0, printed.err
    assert "skipped: 2" in printed.out
    assert "huge.png claims to have more than" in " ".join(printed.err.split())


def png_that_claims(side: int) -> bytes:
    """A complete file without pixels, whose header says that it has this height and width."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


def test_info_shows_the_card(cli: Cli, model: str) -> None:
    printed = cli("info", model)
    assert printed.code == 0, printed.err
    assert "green/wrong.png" in printed.out
    assert json.loads(cli("info", model, "--json").out)["noise"] < 0.3
    assert "the 1 of 3 classes that are recognised worst" in cli("info", model, "--show", "1").out


def test_unknown_pictures_are_rejected(cli: Cli, pets: Path) -> None:
    assert "--reject must be at least 1/16 with 15 samples" in (
        cli("adapt", "pets", "--out", "m", "--backbone", "tiny", "--reject", "0.05").problem()
    )
    assert cli("adapt", "pets", "--out", "m", "--backbone", "tiny", "--reject", "0.07").code == 0
    Image.new("RGB", (9, 9), "white").save("white.png")
    found = json.loads(cli("predict", "m", "white.png", "pets/blue/0.png", "--json").out)
    assert [one["answer"] for one in found["predictions"]] == ["unknown", "blue"]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("adapt", "an argument is missing: eigen-reptile adapt FOLDER --out MODEL"),
        ("adapt pets", "an argument is missing: eigen-reptile adapt FOLDER --out MODEL"),
        ("adapt pets --out m --head nonsense", "--head must be one of trust, mean"),
        ("adapt pets --out m --backbone nonsense", "--backbone must be efficientnet-lite0"),
        ("adapt pets --out m --reject x", "x"),
        ("adapt pets --out m --reject 2", "--reject must be None or a false-alarm rate between 0 and 1, not 2"),
        ("adapt pets --out pets", "pets exists and is not a model"),
        ("adapt pets --out pets/blue/0.png", "0.png exists and is not a model"),
        ("adapt pets --out pets/blue/0.png/m --backbone tiny", "cannot create the folder pets/blue/0.png"),
        ("adapt nowhere --out m", "there is no folder nowhere"),
        ("adapt pets/blue --out m", "a folder for each class is expected"),
        ("adapt one --out m", "there is only one class in one, only"),
        ("predict m", "name pictures"),
        ("predict m pets --csv pets/blue/0.png", "--csv must name a file that ends in .csv"),
        ("predict missing pets", "missing"),
        ("predict pets/blue/0.png pets", "is not a model"),
        ("predict m one/only/none", "there are no pictures"),
        ("info", "an argument is missing: eigen-reptile info MODEL"),
        ("info pets", "not a regular file"),
        ("export m", "an argument is missing"),
        ("export m --onnx m.jpg", "--onnx must name a file that ends in .onnx"),
    ],
)
def test_mistakes_are_one_line(cli: Cli, pets: Path, line: str, problem: str) -> None:
    Path("one/only/none").mkdir(parents=True)
    Image.new("RGB", (9, 9)).save("one/only/1.png")
    before = {path: path.read_bytes() for path in pets.rglob("*.png")}
    printed = cli(*line.split())
    assert printed.code in (1, 2)
    assert problem in printed.problem()
    assert {path: path.read_bytes() for path in pets.rglob("*.png")} == before


def test_vectors_are_not_for_predict(cli: Cli, pets: Path) -> None:
    FewShotClassifier().fit(np.eye(4), list("aabb")).save("m")
    assert "classifies vectors" in cli("predict", "m", "pets").problem()


def test_export_writes_one_file_and_says_the_difference(cli: Cli, model: str) -> None:
    pytest.importorskip("onnxscript")
    printed = cli("export", model, "--onnx", "exported/m.onnx", "--json")
    assert printed.code == 0, printed.err
    assert json.loads(printed.out)["difference"] < 1e-4
    assert [file.name for file in Path("exported").iterdir()] == ["m.onnx"]


@pytest.mark.parametrize("line", ["adapt", "adapt x", "predict m", "export m --onnx m.png", "info a b"])
def test_wrong_arguments_do_not_wait_for_torch(line: str) -> None:
    program = "import sys; from eigen_reptile.cli import run; run(sys.argv[1:]); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program, *line.split()], capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines()[-1] == "False"
