"""Independent jobs: parallel processes and a Ray cluster give the results of one job after the other."""

import json
import os
import signal
from collections.abc import Callable
from dataclasses import replace
from multiprocessing import active_children
from pathlib import Path

import pytest

from eigen_reptile.methods import METHODS
from eigen_reptile.nn import Mlp
from eigen_reptile.runtime.job_processes import run_in_processes
from eigen_reptile.runtime.jobs import Outcome
from eigen_reptile.runtime.progress import ReportProgress, StartProgress, no_progress
from eigen_reptile.runtime.ray_jobs import run_on_ray
from eigen_reptile.training.config import Experiment, MetaConfig
from eigen_reptile.training.evaluate import EvalConfig
from eigen_reptile.training.experiment import ExperimentJob
from eigen_reptile.training.result import Result

SMALL = Experiment(
    method=METHODS["reptile"],
    model=Mlp((4,)),
    meta=MetaConfig(steps=6),
    evaluation=EvalConfig(tasks=3, monitor_tasks=2, every=3, inner_steps=(0, 2), snapshot_steps=()),
    compile="off",
)
PATIENCE = 240.0
"""Seconds; the machine may be busy."""
Engine = Callable[[list[ExperimentJob], StartProgress], Outcome[Result]]
ENGINES: dict[str, Engine] = {
    "processes": lambda jobs, start_progress: run_in_processes(jobs, 2, start_progress, PATIENCE),
    "ray": run_on_ray,
}


def jobs_in(folder: Path) -> list[ExperimentJob]:
    return [
        ExperimentJob(name, replace(SMALL, method=METHODS[name]), folder / name)
        for name in ("reptile", "eigen-reptile", "average-weights")
    ]


@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES.keys())
def test_jobs_give_the_results_of_single_runs_even_if_one_of_them_fails(tmp_path: Path, engine: Engine) -> None:
    reported: dict[str, int] = {}

    def start_progress(name: str, total: int) -> ReportProgress:
        return lambda step, metrics: reported.update({name: step})

    refused, *others = jobs_in(tmp_path / "together")
    refused.folder.mkdir(parents=True)
    (refused.folder / "letter.txt").write_text("not a run")
    outcome = engine([refused, *others], start_progress)
    assert "is not empty and not the folder of a run" in str(outcome.failed.pop("reptile"))
    assert not outcome.failed
    assert list(outcome.results) == ["eigen-reptile", "average-weights"]
    for job in jobs_in(tmp_path / "alone")[1:]:
        alone = job.run(no_progress)
        saved = json.loads((tmp_path / "together" / job.name / "result.json").read_text())
        expected, returned = alone.to_json(), outcome.results[job.name].to_json()
        for part in ("experiment", "replicas", "test"):
            assert returned[part] == saved[part] == expected[part]
        for part in ("step", "score"):
            curves = [result["learning_curve"][part] for result in (returned, saved, expected)]
            assert curves[0] == curves[1] == curves[2]
        assert reported[job.name] == 6


def test_a_process_that_dies_does_not_stop_the_other(tmp_path: Path) -> None:
    long, other, _ = jobs_in(tmp_path)
    endless = replace(long.experiment, meta=MetaConfig(steps=10_000_000))

    def start_progress(name: str, total: int) -> ReportProgress:
        def report(step: int, metrics: object) -> None:
            if name == "reptile" and step > 0:
                (victim,) = (child for child in active_children() if child.name == "reptile")
                os.kill(victim.pid or 0, signal.SIGKILL)

        return report

    outcome = run_in_processes([long._replace(experiment=endless), other], 2, start_progress, PATIENCE)
    assert list(outcome.results) == ["eigen-reptile"]
    assert "its process died (exit code -9)" in str(outcome.failed["reptile"])
