"""The commands `list` and `data`; for `report` and `compare` see also tests/report."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from command_line import SMALL, Cli, plain
from eigen_reptile.data import DATASETS
from eigen_reptile.methods import METHODS
from eigen_reptile.recipes import RECIPES


def test_list_names_everything(cli: Cli) -> None:
    listed = json.loads(cli("list", "--json").out)
    assert list(listed["methods"]) == list(METHODS)
    assert list(listed["datasets"]) == list(DATASETS)
    assert list(listed["recipes"]) == [*RECIPES, "theory", "practice"]
    assert all(meaning for entries in listed.values() for meaning in entries.values())


def test_data_noise_shows_the_rate_and_the_class_transition_matrix(cli: Cli, images: Path) -> None:
    settings = ("--data.root", str(images), "--noise.kind", "asymmetric", "--noise.rate", "0.4", "--labels", "20000")
    printed = cli("data", "noise", "folder", *settings, "--out", "shown/matrix.png", "--json")
    assert printed.code == 0, printed.err
    found = json.loads(printed.out)
    counts = np.array(found["counts"])
    assert counts.shape == (5, 5)
    assert counts.sum() >= 20000
    assert found["rate"] == pytest.approx(0.4, abs=0.02)
    assert np.argsort(-counts, axis=1)[:, 1].tolist() == [1, 2, 3, 4, 0]
    with Image.open(found["figure"]) as figure:
        assert figure.size[0] > 100
    in_bank = cli("data", "noise", "folder", *settings, "--noise.where", "bank")
    assert in_bank.code == 0, in_bank.err
    assert "% of them wrong" in in_bank.out
    assert cli("data", "noise", "sine", "--noise.kind", "symmetric", "--noise.rate", "0.4").code == 2
    assert "--noise.kind" in cli("data", "noise", "folder", *settings[:2]).problem()
    assert "from 0 to 1" in cli("data", "noise", "folder", *settings[:4], "--noise.rate", "2").problem()


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ("--out file/matrix.png", "cannot create the folder file: File exists"),
        ("--task.way 1000", "task.way"),
        ("--noise.kind matrix --noise.file nowhere.csv", "nowhere.csv"),
        ("--noise.seed -1", "noise.seed must be an integer from 0 to 2**63 - 1, not -1"),
        ("--labels 99999999999999", "labels must be from 1 to 100000000, not 99999999999999"),
    ],
)
def test_data_noise_refuses_settings_that_cannot_work(cli: Cli, images: Path, more: str, problem: str) -> None:
    Path("file").touch()
    kind = () if "--noise.kind" in more else ("--noise.kind", "symmetric", "--noise.rate", "0.3")
    command = ("data", "noise", "folder", "--data.root", str(images), "--labels", "50", *kind, *more.split())
    printed = cli(*command, "--quiet")
    assert (printed.code, printed.out) == (2, "")
    assert plain(problem) in plain(printed.problem())


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        ("compare run nowhere", "nowhere"),
        ("compare run file", "file"),
        ("compare run damaged", "damaged/result.json"),
        ("compare run other", "run and other were not tested on the same tasks"),
        ("report nowhere", "nowhere"),
        ("report damaged", "damaged/result.json"),
        ("report run --insert nowhere.md --out page", "cannot read nowhere.md"),
        ("report run --benchmarks empty --out page", "empty"),
    ],
)
def test_folders_without_usable_results_are_named(cli: Cli, command: str, problem: str) -> None:
    assert cli("train", "reptile", "sine", "--out", "run", *SMALL, "--quiet").code == 0
    assert cli("train", "reptile", "sine", "--out", "other", *SMALL, "--data.points", "40", "--quiet").code == 0
    Path("file").touch()
    for folder in ("damaged", "empty"):
        Path(folder).mkdir()
    Path("damaged/result.json").write_text("[1]")
    printed = cli(*command.split(), "--quiet")
    assert (printed.code, printed.out) == (1, "")
    assert problem in printed.problem()
