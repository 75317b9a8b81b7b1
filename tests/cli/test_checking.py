"""The command `check`."""

import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from command_line import FEW, SMALL, Cli, files
from eigen_reptile.practice.backbones import FeatureCache, FunctionBackbone, ImageInput


def test_intact_runs_are_counted_and_nothing_is_changed(cli: Cli) -> None:
    for name in ("one", "two"):
        assert cli("train", "reptile", "sine", "--out", f"runs/{name}", *SMALL, "--quiet") == (0, "", "")
    before = files("runs")
    assert cli("check", "runs") == (0, "intact: 2 runs\n", "")
    assert cli("check", "runs/one") == (0, "intact: 1 run\n", "")
    assert cli("check", "runs", "--quiet") == (0, "", "")
    printed = cli("check", "runs", "--json")
    assert json.loads(printed.out) == {
        "intact": True,
        "checked": [{"folder": f"runs/{name}", "kind": "run", "problems": []} for name in ("one", "two")],
    }
    assert files("runs") == before


def test_damage_is_one_line_each_and_exit_code_1(cli: Cli) -> None:
    for name in ("one", "two"):
        assert cli("train", "reptile", "sine", "--out", f"runs/{name}", *SMALL, "--quiet") == (0, "", "")
    Path("runs/two/result.json").write_text("{}")
    Path("runs/two/environment.json").write_text("[3]")
    printed = cli("check", "runs")
    assert printed.code == 1
    first, second = printed.out.splitlines()
    assert first.startswith("runs/two: runs/two/environment.json is damaged")
    assert second.startswith("runs/two: runs/two/result.json cannot be understood")
    assert printed.problem() == "eigen-reptile: damaged: 1 run, of 2 that were checked"
    printed = cli("check", "runs", "--json")
    assert printed.code == 1
    found = json.loads(printed.out)
    assert not found["intact"]
    assert [len(one["problems"]) for one in found["checked"]] == [0, 2]


@pytest.mark.parametrize("others", [(), ("result.json",), ("result.json", "metrics.jsonl")])
def test_a_run_without_its_config_is_noticed(cli: Cli, others: tuple[str, ...]) -> None:
    assert cli("train", "reptile", "sine", "--out", "run", *SMALL, "--quiet").code == 0
    for name in ("config.json", *others):
        Path("run", name).unlink()
    printed = cli("check", ".")
    assert printed.code == 1
    assert printed.out == "run: cannot read run/config.json: No such file or directory\n"


def test_a_cache_is_checked(cli: Cli, images: Path) -> None:
    assert cli("train", "reptile", "folder", "--data.root", str(images), *FEW, "--quiet", "--out", "run").code == 0
    assert cli("check", "cache") == (0, "intact: 1 cache\n", "")
    assert cli("check", ".") == (0, "intact: 1 run, 1 cache\n", "")
    (file,) = Path("cache").glob("*/test.npy")
    pixels = file.read_bytes()
    file.write_bytes(pixels[: len(pixels) // 2] + bytes(len(pixels) - len(pixels) // 2))
    printed = cli("check", ".")
    assert printed.code == 1
    assert str(file.parent) in printed.out
    assert printed.problem() == "eigen-reptile: damaged: 1 cache, of 2 that were checked"


def test_a_cache_of_features_is_checked(cli: Cli) -> None:
    backbone = FunctionBackbone(lambda x: x.flatten(1), ImageInput(4), "name")
    FeatureCache(Path("cache/features")).features(backbone, np.zeros((1, 4, 4, 3), dtype=np.uint8))
    assert cli("check", "cache") == (0, "intact: 1 cache of features\n", "")
    with closing(sqlite3.connect("cache/features/features.sqlite")) as database, database:
        database.execute("UPDATE features SET checksum = 0")
    printed = cli("check", "cache")
    assert printed.code == 1
    assert "1 of the features in cache/features/features.sqlite are damaged" in printed.out


@pytest.mark.parametrize(
    ("args", "code", "problem"),
    [
        ((), 2, "name one folder: check FOLDER"),
        (("a", "b"), 2, "name one folder"),
        (("nowhere",), 2, "there is no folder nowhere"),
        (("empty",), 1, "there is nothing to check in empty"),
        (("empty", "--jsno"), 2, "did you mean --json?"),
    ],
)
def test_wrong_arguments_are_named(cli: Cli, args: tuple[str, ...], code: int, problem: str) -> None:
    Path("empty").mkdir()
    printed = cli("check", *args)
    assert printed.code == code
    assert problem in printed.problem()


def test_help_teaches_and_needs_no_torch() -> None:
    ask = "import sys; from eigen_reptile.cli import run; run(['check', '--help']); print('torch' in sys.modules)"
    printed = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True).stdout
    assert printed.startswith("usage: eigen-reptile check FOLDER [OPTIONS]")
    assert "exit code is 0 if everything is intact" in " ".join(printed.split())
    assert printed.endswith("False\n")


def test_committed_results_are_intact(cli: Cli) -> None:
    assert cli("check", str(Path(__file__).parents[2] / "results" / "theory")).out == "intact: 3 studies\n"
    assert cli("check", str(Path(__file__).parents[2] / "results" / "cifar-fs")).out.startswith("intact: ")
