"""Random command lines end with a result or with one line that says what is wrong."""

import random
import shutil
from pathlib import Path

import pytest

from command_line import SMALL, Cli
from command_lines import command_line
from eigen_reptile.data import DATASETS
from patterns import Patterns

SEED = 0
COUNT = 100


@pytest.fixture
def prepared(cli: Cli, recipe: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Cli:
    """Runs a command in a folder with finished runs, an empty folder and a file."""
    monkeypatch.setitem(DATASETS, "patterns", Patterns())
    monkeypatch.setenv("EIGEN_REPTILE_CACHE", str(tmp_path / "cache"))
    assert cli("train", "reptile", "sine", *SMALL, "--out", "run", "--quiet").code == 0
    assert cli("train", "reptile", "sine", *SMALL, "--out", "diverged", "--inner.lr", "1e30", "--quiet").code == 1
    shutil.copytree("run", "ru[n] ü")
    Path("folder").mkdir()
    Path("file").touch()
    return cli


def test_a_command_line_is_carried_out_or_refused_in_one_line(prepared: Cli) -> None:
    rng = random.Random(SEED)
    for _ in range(COUNT):
        line = command_line(rng)
        check(prepared, line)
        for place in ("out", "[out] ü"):
            shutil.rmtree(place, ignore_errors=True)


def check(cli: Cli, line: list[str]) -> None:
    try:
        code, _, err = cli(*line)
    except SystemExit as stop:  # help that tyro has written
        code, err = int(stop.code or 0), ""
    except BaseException as error:
        error.add_note(f"of the command line {line}")
        raise
    assert code in (0, 1, 2), line
    problems = [text for text in err.splitlines() if text.startswith("eigen-reptile: ")]
    assert len(problems) == (code != 0), (line, err)
    assert "Traceback" not in err, (line, err)
