"""`compare` against the result files."""

import json
import math
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest

from eigen_reptile.cli import run as run_command
from eigen_reptile.data import CifarFs, Dataset, Folder, Glyphs
from eigen_reptile.methods import METHODS
from eigen_reptile.nn import Conv4, Mlp
from eigen_reptile.runtime.checksums import with_checksum
from eigen_reptile.training.config import Experiment, MetaConfig
from eigen_reptile.training.evaluate import EvalConfig
from eigen_reptile.training.experiment import run
from eigen_reptile.training.presets import preset
from eigen_reptile.training.serialise import to_json
from patterns import SMALL
from report.shared import saved, students_formula

pytestmark = pytest.mark.xdist_group("paired")  # so that the shared runs are computed once

IMAGES = replace(
    SMALL,
    meta=MetaConfig(steps=3, batch=2, lr=(0.5, 1.0)),
    evaluation=replace(SMALL.evaluation, tasks=8, every=3),
    seeds=(3, 5),
)
CURVES = Experiment(
    model=Mlp(hidden=(4,)),
    meta=MetaConfig(steps=3),
    evaluation=EvalConfig(tasks=6, monitor_tasks=2, shots=(3,), inner_steps=(0, 2), snapshot_steps=()),
    compile="off",
)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    for name in ("reptile", "eigen-reptile"):
        run(replace(IMAGES, method=METHODS[name]), folder / name)
        run(replace(CURVES, method=METHODS[name]), folder / "sine" / name)
    return folder


Compare = Callable[..., tuple[int, str, str]]


@pytest.fixture
def compare(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Compare:
    monkeypatch.setenv("COLUMNS", "160")

    def call(*words: object) -> tuple[int, str, str]:
        return run_command(["compare", *map(str, words)]), *capsys.readouterr()

    return call


def parse_strictly(text: str) -> Any:
    """JSON, without the words for infinite and undefined numbers that only Python accepts."""

    def refuse(word: str) -> NoReturn:
        raise ValueError(f"{word} is not JSON")

    return json.loads(text, parse_constant=refuse)


def changed(source: Path, target: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    """A copy of a run with a changed result, which need not fit the config."""
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("config.json"))
    result = saved(source)
    change(result)
    (target / "result.json").write_text(json.dumps(with_checksum(result)))
    return target


@pytest.mark.parametrize(
    ("where", "measure", "columns"),
    [("", "accuracy", ("inductive", "transductive")), ("sine", "squared error", ("0 steps", "2 steps"))],
)
def test_differences_are_computed_from_the_result_files(
    runs: Path, compare: Compare, where: str, measure: str, columns: tuple[str, ...]
) -> None:
    folders = runs / where / "eigen-reptile", runs / where / "reptile"
    code, out, err = compare(*folders, "--json")
    assert (code, err) == (0, "")
    output = parse_strictly(out)
    assert output["measure"] == measure
    first, second = (saved(folder)["test"] for folder in folders)
    ways = [(test["shots"], column) for test in first for column in columns]
    assert [(row["shots"], row["column"]) for row in output["comparisons"]] == ways
    table = compare(*folders)[1]
    for row, (shots, column) in zip(output["comparisons"], ways, strict=True):
        sides = []
        for tests in (first, second):
            (test,) = (test for test in tests if test["shots"] == shots)
            sides.append({key: np.array(test[key][test["columns"].index(column)]) for key in ("per_task",)})
            sides[-1]["per_seed"] = np.array(test["per_seed"])[:, test["columns"].index(column)]
        one, other = (side["per_task"].mean(0) for side in sides)
        check(row["over_tasks"], one, other)
        seeds = len(sides[0]["per_seed"])
        if seeds > 1:
            check(row["over_seeds"], sides[0]["per_seed"], sides[1]["per_seed"])
        else:
            assert row["over_seeds"] is None
        mean, half, _ = students_formula(list(one - other))
        shown = f"{100 * mean:.2f} ± {100 * half:.2f}" if measure == "accuracy" else f"{mean:.4f} ± {half:.4f}"
        assert shown in table


def check(found: dict[str, float], one: np.ndarray, other: np.ndarray) -> None:
    assert found["pairs"] == len(one)
    assert (found["first"], found["second"]) == pytest.approx((one.mean(), other.mean()))
    differences = list(one - other)
    assert found["difference"] == pytest.approx(math.fsum(differences) / len(one), abs=1e-12)
    if np.ptp(differences) > 1e-6:
        assert (found["ci95"], found["p"]) == pytest.approx(students_formula(differences)[1:], rel=1e-6)


def test_swapping_the_runs_changes_the_sign(runs: Path, compare: Compare) -> None:
    def rows(*names: str) -> list[dict[str, Any]]:
        found = parse_strictly(compare(*(runs / name for name in names), "--json")[1])["comparisons"]
        return [row["over_tasks"] for row in found]

    for one, other in zip(rows("reptile", "eigen-reptile"), rows("eigen-reptile", "reptile"), strict=True):
        assert (one["first"], one["second"]) == (other["second"], other["first"])
        assert (one["difference"], one["ci95"], one["p"]) == pytest.approx(
            (-other["difference"], other["ci95"], other["p"])
        )
    assert {row["difference"] for row in rows("reptile", "reptile")} == {0.0}
    assert compare(runs / "reptile", runs / "eigen-reptile", "--quiet") == (0, "", "")


def test_how_a_run_was_trained_does_not_matter(runs: Path, compare: Compare, tmp_path: Path) -> None:
    def otherwise_trained(result: dict[str, Any]) -> None:
        experiment = result["experiment"]
        experiment["inner"]["steps"] = 9
        experiment["task"]["shots"] = 7
        experiment["meta"]["steps"] = 100
        experiment["evaluation"] |= {"every": 5, "monitor_tasks": 7, "inner_steps": [9], "batch": 2}
        experiment["seeds"] = [8, 9]
        for replica in result["replicas"]:
            replica["seed"] = {3: 8, 5: 9}[replica["seed"]]

    other = changed(runs / "reptile", tmp_path / "other", otherwise_trained)
    code, out, err = compare(runs / "eigen-reptile", other, "--json")
    assert (code, err) == (0, "")
    rows = parse_strictly(out)["comparisons"]
    assert all(row["over_seeds"] is None for row in rows)  # different seeds cannot be paired
    before = parse_strictly(compare(runs / "eigen-reptile", runs / "reptile", "--json")[1])["comparisons"]
    assert [row["over_tasks"] for row in rows] == [row["over_tasks"] for row in before]


def test_the_tasks_do_not_depend_on_how_a_method_adapts_to_them(compare: Compare, tmp_path: Path) -> None:
    """A method that adapts nothing has the same scores, whatever was drawn for an inner loop."""
    task, model = replace(IMAGES.task, queries=2), Conv4(4, head=False)
    exp = replace(IMAGES, method=METHODS["prototypical"], task=task, model=model)
    run(exp, tmp_path / "one")
    run(replace(exp, evaluation=replace(exp.evaluation, inner_steps=(1, 7), batch=1)), tmp_path / "other")
    code, out, _ = compare(tmp_path / "one", tmp_path / "other", "--json")
    assert code == 0
    assert {
        (row["over_tasks"]["difference"], row["over_tasks"]["ci95"]) for row in parse_strictly(out)["comparisons"]
    } == {(0.0, 0.0)}


@pytest.mark.parametrize(
    ("part", "setting", "value", "said"),
    [
        ("evaluation", "seed", 7, "evaluation.seed is 0 in {first} and 7 in {second}"),
        ("evaluation", "tasks", 9, "evaluation.tasks is 8 in {first} and 9 in {second}"),
        ("evaluation", "queries", 2, "evaluation.queries is 3 in {first} and 2 in {second}"),
        ("data", "classes", 9, "data.classes is 8 in {first} and 9 in {second}"),
        ("task", "way", 2, "way is 3 in {first} and 2 in {second}"),
    ],
)
def test_runs_on_different_tasks_are_an_error(
    runs: Path, compare: Compare, tmp_path: Path, part: str, setting: str, value: int, said: str
) -> None:
    def elsewhere(result: dict[str, Any]) -> None:
        result["experiment"][part][setting] = value

    other = changed(runs / "eigen-reptile", tmp_path / "other", elsewhere)
    code, out, err = compare(runs / "reptile", other)
    assert (code, out) == (1, "")
    assert err.startswith(f"eigen-reptile: {runs / 'reptile'} and {other} were not tested on the same tasks: ")
    assert err.endswith(said.format(first=runs / "reptile", second=other) + "\n")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        (CifarFs(root=Path("here")), CifarFs(root=Path("there")), True),  # the official data set in another location
        (CifarFs(), Glyphs(), False),
        (Folder(root=Path("cats")), Folder(root=Path("dogs")), False),  # different folders have different images
        (Folder(root=Path("cats")), Folder(root=Path("cats"), size=84), False),
    ],
)
def test_which_data_sets_are_the_same(
    runs: Path, compare: Compare, tmp_path: Path, first: Dataset, second: Dataset, same: bool
) -> None:
    folders = []
    for number, data in enumerate((first, second)):

        def exchange(result: dict[str, Any], data: Dataset = data) -> None:
            result["experiment"]["data"] = to_json(preset(data, METHODS["reptile"]))["data"]

        folders.append(changed(runs / "reptile", tmp_path / str(number), exchange))
    code, out, err = compare(*folders)
    assert (code, bool(out)) == ((0, True) if same else (1, False))
    assert same or "the data set is" in err or " data." in err
    assert err.count(";") == 0  # only one reason is given for another data set


def test_a_run_without_a_result_is_an_error(runs: Path, compare: Compare, tmp_path: Path) -> None:
    unfinished = tmp_path / "unfinished"
    shutil.copytree(runs / "reptile", unfinished)
    (unfinished / "result.json").unlink()
    for pair in ((unfinished, runs / "reptile"), (runs / "reptile", unfinished)):
        assert compare(*pair, "--json") == (
            1,
            "",
            f"eigen-reptile: there is no finished run in {unfinished}: it has no result.json\n",
        )
    (unfinished / "result.json").write_text('{"format": 2')
    code, out, err = compare(unfinished, runs / "reptile")
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert "not valid JSON" in err


def test_runs_that_were_not_tested_are_an_error(runs: Path, compare: Compare, tmp_path: Path) -> None:
    def untested(result: dict[str, Any]) -> None:
        result["test"] = None
        result["experiment"]["evaluation"]["test"] = False

    folders = [changed(runs / name, tmp_path / name, untested) for name in ("reptile", "eigen-reptile")]
    code, out, err = compare(*folders)
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert "have no test scores in common" in err


def test_a_single_task_gives_valid_json(runs: Path, compare: Compare, tmp_path: Path) -> None:
    def one_task(result: dict[str, Any]) -> None:
        result["experiment"]["evaluation"]["tasks"] = 1
        for test in result["test"]:
            test["tasks"] = 1
            test["per_task"] = [[tasks[:1] for tasks in column] for column in test["per_task"]]

    folders = [changed(runs / name, tmp_path / name, one_task) for name in ("reptile", "eigen-reptile")]
    code, out, _ = compare(*folders, "--json")
    assert code == 0
    assert {row["over_tasks"]["pairs"] for row in parse_strictly(out)["comparisons"]} == {1}
