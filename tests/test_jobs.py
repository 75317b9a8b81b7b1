"""Independent cells: side by side and on a Ray cluster they give what they give one after the other."""

import json
import os
import signal
from collections.abc import Callable
from dataclasses import replace
from multiprocessing import active_children
from pathlib import Path

import pytest

from eigen_reptile.cli import run
from eigen_reptile.config import Experiment, MetaConfig
from eigen_reptile.data import CifarFs
from eigen_reptile.evaluate import EvalConfig
from eigen_reptile.jobs import Job, Outcome, on_ray, side_by_side
from eigen_reptile.methods import METHODS
from eigen_reptile.models import Conv4, Mlp
from eigen_reptile.progress import Announce, Report, silent
from eigen_reptile.recipes import RECIPES, Recipe
from eigen_reptile.tasks import TaskConfig

SMALL = Experiment(
    method=METHODS["reptile"],
    model=Mlp((4,)),
    meta=MetaConfig(steps=30),
    evaluation=EvalConfig(tasks=3, monitor_tasks=2, every=15, pictures=()),
    compile="off",
)
ENGINES: dict[str, Callable[[list[Job], Announce], Outcome]] = {
    "processes": lambda jobs, announce: side_by_side(jobs, 2, announce),
    "ray": on_ray,
}


def jobs_in(folder: Path) -> list[Job]:
    return [
        Job(name, replace(SMALL, method=METHODS[name]), folder / name)
        for name in ("reptile", "eigen-reptile", "average-weights")
    ]


@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES.keys())
def test_many_at_once_give_what_each_gives_alone_also_if_one_fails(
    tmp_path: Path, engine: Callable[[list[Job], Announce], Outcome]
) -> None:
    told: dict[str, int] = {}

    def announce(name: str, total: int) -> Report:
        return lambda step, metrics: told.update({name: step})

    refused, *others = jobs_in(tmp_path / "together")
    refused.folder.mkdir(parents=True)
    (refused.folder / "letter.txt").write_text("not ours")
    outcome = engine([refused, *others], announce)
    assert "is not empty, but no run of ours" in str(outcome.failed.pop("reptile"))
    assert not outcome.failed
    assert list(outcome.results) == ["eigen-reptile", "average-weights"]
    for job in jobs_in(tmp_path / "alone")[1:]:
        alone = job.run(silent)
        kept = json.loads((tmp_path / "together" / job.name / "result.json").read_text())
        for part in ("experiment", "lanes", "history", "test"):
            assert outcome.results[job.name][part] == kept[part] == alone[part]
        assert told[job.name] == 30


def test_a_process_that_dies_does_not_stop_the_others(tmp_path: Path) -> None:
    long, *others = jobs_in(tmp_path)
    endless = replace(long.experiment, meta=MetaConfig(steps=10_000_000))

    def announce(name: str, total: int) -> Report:
        def report(step: int, metrics: object) -> None:
            if name == "reptile" and step > 0:
                (victim,) = (child for child in active_children() if child.name == "reptile")
                os.kill(victim.pid or 0, signal.SIGKILL)

        return report

    outcome = side_by_side([long._replace(experiment=endless), *others], 2, announce)
    assert list(outcome.results) == ["eigen-reptile", "average-weights"]
    assert "its process died (exit code -9)" in str(outcome.failed["reptile"])


@pytest.mark.parametrize("workers", [1, 2])
def test_a_cell_that_cannot_run_does_not_stop_the_next(
    workers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One has no pictures, and another, with workers, fewer tasks than these."""
    fits = replace(SMALL, meta=MetaConfig(steps=2, batch=2))
    cells = {
        "no data": replace(fits, data=CifarFs(root=tmp_path / "none"), model=Conv4(4), task=TaskConfig(way=5)),
        "one task": replace(fits, meta=replace(fits.meta, batch=1)),
        "fits": fits,
    }
    monkeypatch.setitem(RECIPES, "small", Recipe("", lambda scale: cells))
    words = f"run small --out {tmp_path / 'runs'} --json --workers {workers}"
    assert run(words.split()) == 1
    told = capsys.readouterr()
    assert list(json.loads(told.out)["results"]) == (["one task", "fits"] if workers == 1 else ["fits"])
    assert f"{workers} of 3 cells failed. no data: " in told.err


@pytest.mark.parametrize("more", ["--jobs 2", "--engine ray"])
def test_workers_and_jobs_are_not_mixed(more: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["run", "sine", "--out", str(tmp_path), "--workers", "2", *more.split()]) == 2
    assert "use either --workers" in capsys.readouterr().err


def test_a_recipe_runs_side_by_side(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    small = Recipe("", lambda scale: {job.name: job.experiment for job in jobs_in(tmp_path)})
    monkeypatch.setitem(RECIPES, "small", small)
    cells = ["reptile", "average-weights"]
    words = f"run small --out {tmp_path} --steps 2 --seeds 0 --jobs 2 --json --only {' '.join(cells)}"
    assert run(words.split()) == 0
    assert list(json.loads(capsys.readouterr().out)["results"]) == cells
