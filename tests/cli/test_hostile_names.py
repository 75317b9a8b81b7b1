"""Names of classes and files are shown as they are: no terminal, figure or table obeys them."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from command_line import Cli

NAMES = (
    b"$\\frac{$", b"price $5 or $6", b"\x1b[31mred\x1b]0;title\x07", b"[red]x[bold]", b"[blink", b"<script>x<script>",
    b"a|b", b"two\nlines", b"\xff\xfe", b":smile:", "停止".encode(), b"{task.description}", b"%s%n", b"`x`", b"&amp;",
)  # fmt: skip


@pytest.fixture
def signs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every class has a hostile name, and some files have one."""
    monkeypatch.setenv("EIGEN_REPTILE_CACHE", str(tmp_path / "cache"))
    rng = np.random.default_rng(0)
    for name in NAMES:
        folder = tmp_path / "signs" / os.fsdecode(name)
        folder.mkdir(parents=True)
        for number in range(3):
            image = Image.fromarray(rng.integers(0, 256, (8, 8), dtype=np.uint8))
            image.save(folder / os.fsdecode(b"\x1b[2J%d\xff.png" % number))
    return tmp_path / "signs"


@pytest.mark.parametrize("classes", [5, 2])  # all confusions are shown, or the whole matrix
def test_names_are_escaped_in_tables_and_figures(cli: Cli, signs: Path, classes: int) -> None:
    data = ("folder", "--data.root", str(signs), "--data.size", "8", "--data.least", str(classes))
    noise = ("--noise.kind", "symmetric", "--noise.rate", "0.5", "--noise.where", "bank", "--out", "noise.png")
    printed = cli("data", "noise", *data, *noise)
    assert printed.code == 0, printed.err
    shown = printed.out + printed.err
    assert "\x1b" not in shown
    assert "\x07" not in shown
    assert shown.encode()
    assert Path("noise.png").read_bytes().startswith(b"\x89PNG")
    found = json.loads(cli("data", "noise", *data, *noise, "--json").out)
    assert set(found["names"]) <= set(map(os.fsdecode, NAMES))


def test_markup_in_names_is_shown(cli: Cli, signs: Path) -> None:
    data = ("folder", "--data.root", str(signs), "--data.size", "8", "--data.least", "2", "--data.split-seed", "3")
    noise = ("--noise.kind", "symmetric", "--noise.rate", "0.5", "--noise.where", "bank")
    names = json.loads(cli("data", "noise", *data, *noise, "--json").out)["names"]
    table = cli("data", "noise", *data, *noise).out
    for name in {"[red]x[bold]", "[blink", ":smile:"}.intersection(names):
        assert name in table


def test_names_are_escaped_in_messages(cli: Cli, signs: Path) -> None:
    for name in NAMES[:3]:
        (signs / os.fsdecode(name) / os.fsdecode(b"\x1b[2J0\xff.png")).write_text("text")
    printed = cli("train", "reptile", "folder", "--data.root", str(signs), "--data.least", "2", "--out", "run")
    assert printed.code == 2
    assert "3 of 45 images are broken" in printed.problem()
    assert "\x1b" not in printed.err
    assert printed.err.encode()


@pytest.mark.parametrize("command", ["train reptile sine --out {}", "eval {} --out x", "report {}", "check {}"])
def test_a_name_that_is_too_long_is_given_with_the_reason(cli: Cli, command: str) -> None:
    printed = cli(*command.format("n" * 300).split())
    assert printed.code == 1
    assert printed.problem().startswith("eigen-reptile: cannot use nnnn")
    assert printed.problem().endswith(": File name too long")
