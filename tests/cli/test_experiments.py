"""The commands that train: `train`, `run` and `quickstart`."""

import json
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, final

import numpy as np
import pytest

from command_line import FEW, SMALL, Cli, files, saved
from doubles import ImageDouble
from eigen_reptile.cli import experiments
from eigen_reptile.data import DATASETS, Banks, Dataset
from eigen_reptile.methods import METHODS, Method
from eigen_reptile.nn import Conv4
from eigen_reptile.recipes import RECIPES, Recipe
from eigen_reptile.runtime.progress import StartProgress
from eigen_reptile.training.config import Experiment
from eigen_reptile.training.evaluate import EvalConfig
from eigen_reptile.training.presets import preset
from patterns import Patterns


def test_a_finished_cell_is_skipped(cli: Cli, recipe: str) -> None:
    command = ("run", recipe, "--out", "runs", "--steps", "10", "--seeds", "0", "1", "--json")
    first = cli(*command, "--only", "reptile")
    assert first.code == 0
    assert list(json.loads(first.out)["results"]) == ["reptile"]
    config = saved("runs/reptile/config.json")
    assert (config["meta"]["steps"], config["meta"]["lr"], config["seeds"]) == (10, [0.5, 1.0], [0, 1])
    before = files("runs")
    assert cli(*command, "--only", "reptile") == first
    assert files("runs") == before

    both = json.loads(cli(*command).out)["results"]
    assert list(both) == ["reptile", "eigen-reptile"]
    assert both["reptile"] == json.loads(first.out)["results"]["reptile"]
    assert before.items() <= files("runs").items()


def test_a_cell_that_fails_does_not_stop_the_others(cli: Cli, recipe: str) -> None:
    Path("runs").mkdir()
    Path("runs/reptile").touch()
    printed = cli("run", recipe, "--out", "runs", "--steps", "3", "--quiet")
    assert printed.code == 2  # the only problem is the folder that was chosen
    assert "1 of 2 cells failed. reptile: cannot write to the folder runs/reptile: File exists" in printed.problem()
    assert saved("runs/eigen-reptile/result.json")["test"] is not None


@pytest.mark.parametrize(
    ("steps", "reason"), [("9", "training diverged at iteration 4"), ("3", "the validation error is not finite")]
)
def test_a_run_that_diverges_suggests_what_to_try(cli: Cli, steps: str, reason: str) -> None:
    absurd = ("--meta.steps", steps, "--meta.lr", "1e9", "--seeds", "0", "1", "--json")
    printed = cli("train", "eigen-reptile", "sine", "--out", "run", *SMALL, *absurd)
    assert printed.code == 1
    assert printed.problem() == f"eigen-reptile: {reason}: try a smaller --meta.lr or --inner.lr"
    assert json.loads(printed.out)["results"]["eigen-reptile sine"]["test"] is None


@pytest.mark.parametrize(
    ("words", "width"), [(("--scale", "full"), 6), (("--scale", "small"), 4), (("--scale", "tune"), 3), ((), 4)]
)
def test_all_cells_of_a_recipe_are_run_at_the_chosen_scale(
    cli: Cli, recipe: str, words: tuple[str, ...], width: int
) -> None:
    assert cli("run", recipe, *words, "--device", "cpu", "--quiet") == (0, "", "")
    for cell, kind in {"reptile": "Reptile", "eigen-reptile": "EigenReptile"}.items():
        result = saved(f"runs/{recipe}/{cell}/result.json")
        assert result["experiment"]["model"]["hidden"] == [width]
        assert result["experiment"]["method"]["kind"] == kind
        assert result["environment"]["device"] == "cpu"
        assert len(result["replicas"]) == 2
        assert np.isfinite(result["test"][0]["mean"]).all()


PROTOCOLS: dict[str, dict[str, Any]] = {
    "authors": {"tasks": 10_000, "queries": 1, "inner_steps": [50], "batch": 15},
    "field": {"tasks": 600, "queries": 15},
}


@pytest.mark.parametrize(("command", "protocol"), [("train", "field"), ("run", "authors")])
def test_a_protocol_is_carried_out_and_changes_nothing_but_the_evaluation(
    cli: Cli, recipe: str, command: str, protocol: str
) -> None:
    if command == "train":
        words: tuple[str, ...] = (
            "train",
            "reptile",
            "sine",
            "--meta.steps",
            "3",
            "--compile",
            "off",
            "--model.hidden",
            "4",
        )
        plain, evaluated = "plain", "evaluated"
    else:
        words, plain, evaluated = ("run", recipe, "--only", "reptile"), "plain/reptile", "evaluated/reptile"
    assert cli(*words, "--out", "plain", "--quiet") == (0, "", "")
    assert cli(*words, "--out", "evaluated", "--protocol", protocol, "--quiet") == (0, "", "")
    before, after = saved(f"{plain}/config.json"), saved(f"{evaluated}/config.json")
    assert after == before | {"evaluation": before["evaluation"] | PROTOCOLS[protocol]}
    (test,) = saved(f"{evaluated}/result.json")["test"]
    tasks = PROTOCOLS[protocol]["tasks"]
    assert (test["tasks"], np.shape(test["per_task"])[-1]) == (tasks, tasks)


@final
@dataclass(frozen=True)
class Stored(ImageDouble):
    """A data set that is read from a folder and may be incomplete, like mini-ImageNet."""

    root: Path | None = None
    per_class: int = 9

    def load(self, start_progress: StartProgress) -> Banks:
        assert (self.root, self.per_class) == (Path("there").absolute(), 6)
        return Patterns(images=self.per_class, test_images=self.per_class).load(start_progress)


def test_a_recipe_reads_the_data_from_the_given_folder(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    small = preset(Patterns(), METHODS["reptile"])
    evaluation = replace(small.evaluation, tasks=2, monitor_tasks=1, shots=(1,), queries=1, inner_steps=(1,))
    task = replace(small.task, shots=3)
    cell = replace(small, data=Stored(), model=Conv4(2), task=task, evaluation=evaluation)
    monkeypatch.setitem(RECIPES, "tiny", Recipe("One cell.", lambda scale: {"cell": cell}))
    words = ("--data", "there", "--per-class", "6", "--seeds", "4", "--steps", "2")
    assert cli("run", "tiny", *words, "--quiet") == (0, "", "")
    config = saved("runs/tiny/cell/config.json")
    assert config["data"] == {"kind": "Stored", "root": str(Path("there").absolute()), "per_class": 6}
    assert (config["seeds"], config["meta"]["steps"]) == ([4], 2)
    assert saved("runs/tiny/cell/result.json")["test"][0]["tasks"] == 2


def test_a_broken_image_is_named_before_anything_is_written(cli: Cli, images: Path) -> None:
    (images / "class 3" / "0.png").write_text("not an image")
    printed = cli("train", "reptile", "folder", "--data.root", str(images), "--out", "run", *FEW, "--quiet")
    assert (printed.code, printed.out) == (2, "")
    assert "class 3" in printed.problem()
    assert "0.png" in printed.problem()
    assert not Path("run").exists()


def test_quickstart_trains_both_methods_and_writes_the_report(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the real curves and networks, but few tasks, and with images that are drawn faster than glyphs."""

    def small_preset(data: Dataset, method: Method) -> Experiment:
        experiment = preset(data, method)
        evaluation = replace(experiment.evaluation, inner_steps=(4,), queries=1)
        return replace(experiment, model=Conv4(filters=4), evaluation=evaluation)

    monkeypatch.setitem(DATASETS, "glyphs", Patterns(test_images=4))
    monkeypatch.setattr(experiments, "preset", small_preset)
    monkeypatch.setattr(experiments, "EvalConfig", partial(EvalConfig, tasks=10, monitor_tasks=2, inner_steps=(0, 4)))
    code, out, _ = cli("quickstart", "--steps", "4", "--glyph-steps", "2", "--out", "quick", "--json")
    assert code == 0
    printed = json.loads(out)
    assert set(printed["results"]) == {
        f"{name} {data}" for name in ("reptile", "eigen-reptile") for data in ("sine", "glyphs")
    }
    assert Path(printed["report"]).read_text().count("data:image/png") == 5  # three of curves, two of glyphs
    table = (Path(printed["report"]).parent / "results.md").read_text()
    for name, result in printed["results"].items():
        method, data = name.split()
        config = saved(f"quick/{data}/{method}/config.json")
        (test,) = result["test"]
        mean = test["mean"][-1]
        if data == "glyphs":
            assert config["data"]["kind"] == "Patterns"
            assert (config["meta"]["steps"], config["task"]["way"], test["shots"], test["tasks"]) == (2, 5, 1, 40)
            assert f"{100 * mean:.2f} ± " in table
        else:
            assert (config["meta"]["steps"], config["task"]["way"], test["shots"]) == (4, 1, 10)
            assert f"{mean:.4f} ± " in table
