"""The outer loop: replicas trained side by side, and divergence."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from torch import Tensor

from eigen_reptile.inner import InnerConfig
from eigen_reptile.methods import METHODS
from eigen_reptile.runtime.progress import ReportProgress, no_progress
from eigen_reptile.tasks import TaskConfig
from eigen_reptile.training.config import Experiment, MetaConfig
from eigen_reptile.training.evaluate import EvalConfig
from eigen_reptile.training.experiment import run
from eigen_reptile.training.loop import finished, samples_per_task
from eigen_reptile.training.setup import set_up
from eigen_reptile.training.state import TrainState

SMALL = Experiment(
    meta=MetaConfig(steps=12, lr=(0.5,)),
    evaluation=EvalConfig(tasks=3, monitor_tasks=2, every=6, shots=(3,), inner_steps=(0, 2), snapshot_steps=(1,)),
    compile="off",
)


def final_theta(exp: Experiment, folder: Path) -> Tensor:
    run(exp, folder)
    return safetensors.torch.load_file(folder / "checkpoints" / f"step-{exp.meta.steps:09d}.safetensors")["theta"]


def test_replicas_train_side_by_side_as_they_would_alone(tmp_path: Path) -> None:
    together = replace(SMALL, meta=replace(SMALL.meta, lr=(0.3, 0.5)), seeds=(1, 2))
    theta = final_theta(together, tmp_path / "together")
    for number, replica in enumerate(together.replicas):
        alone = replace(SMALL, meta=replace(SMALL.meta, lr=(replica.lr,)), seeds=(replica.seed,))
        torch.testing.assert_close(theta[number], final_theta(alone, tmp_path / str(number))[0], rtol=1e-4, atol=1e-6)


def test_a_diverging_replica_is_recorded_and_does_not_affect_the_others(tmp_path: Path) -> None:
    wild = replace(SMALL, meta=replace(SMALL.meta, lr=(0.5, 1e12)), seeds=(1, 2))
    result = run(wild, tmp_path / "wild")
    assert [replica.diverged_at is None for replica in result.replicas] == [True, True, False, False]
    assert all(1 <= (replica.diverged_at or 0) <= 12 for replica in result.replicas[2:])
    assert result.choice is not None
    assert result.choice.lr == 0.5
    tame = replace(wild, meta=SMALL.meta)
    theta = safetensors.torch.load_file(tmp_path / "wild" / "checkpoints" / "step-000000012.safetensors")["theta"]
    assert theta.isfinite().all()
    torch.testing.assert_close(theta[:2], final_theta(tame, tmp_path / "tame"), rtol=1e-4, atol=1e-6)


def test_training_stops_when_all_replicas_have_diverged(tmp_path: Path) -> None:
    wild = replace(SMALL, meta=replace(SMALL.meta, steps=1000, lr=(1e12,)))
    reported: dict[str, int] = {}

    def start_progress(name: str, total: int) -> ReportProgress:
        return lambda done, metrics: reported.update({name: done})

    result = run(wild, tmp_path, start_progress)
    assert result.choice is None
    assert result.test is None
    assert reported[tmp_path.name] == result.steps == result.replicas[0].diverged_at
    assert result.steps < 100


@pytest.mark.parametrize(
    ("change", "samples"),
    [
        ({}, 5 * 10),  # mini-batches
        ({"inner": InnerConfig(steps=3, batch=None)}, 3 * 50),  # the whole support in every step
        ({"method": METHODS["maml"], "task": TaskConfig(queries=2)}, 5 * 10 + 2),  # and the queries
    ],
    ids=["mini-batches", "whole support", "queries"],
)
def test_samples_per_task_are_those_that_pass_through_the_network(change: dict[str, Any], samples: int) -> None:
    assert samples_per_task(replace(SMALL, **change)) == samples


def test_training_ends_after_its_steps_or_without_improvement_or_when_all_diverged() -> None:
    exp = replace(SMALL, meta=replace(SMALL.meta, patience=2), seeds=(0, 1))
    state = TrainState.fresh(set_up(exp, no_progress, "cpu"))
    assert not finished(exp, state)
    assert finished(exp, state._replace(step=12))
    assert finished(exp, state._replace(step=1, diverged_at=torch.tensor([1, 1])))
    later = replace(exp, meta=replace(exp.meta, steps=100))
    for diverged_at, best, expected in (
        ([-1, -1], [18, 24], False),
        ([-1, -1], [18, 12], True),
        ([-1, 20], [18, 24], True),  # the best step of a diverged replica does not count
    ):
        reached = state._replace(
            step=30, diverged_at=torch.tensor(diverged_at), best=state.best._replace(step=torch.tensor(best))
        )
        assert finished(later, reached) == expected
        assert not finished(replace(later, meta=replace(later.meta, patience=0)), reached)
