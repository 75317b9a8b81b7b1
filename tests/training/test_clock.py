"""Durations after an interruption: no second is lost with the start that was interrupted."""

from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest

from eigen_reptile.training.config import Experiment, MetaConfig
from eigen_reptile.training.evaluate import EvalConfig
from eigen_reptile.training.experiment import run
from interrupted import Interrupted, interrupt_at

STEPS = 7
CURVES = Experiment(
    meta=MetaConfig(steps=STEPS, lr=(0.5,)),
    evaluation=EvalConfig(tasks=2, monitor_tasks=2, every=100, shots=(3,), inner_steps=(0, 2), snapshot_steps=()),
    compile="off",
)
"""Only the first and the last iteration are logged."""


@pytest.fixture
def each_iteration_takes(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """A clock for the outer loop that advances by as many seconds whenever it is read."""

    def set_clock(seconds: float) -> None:
        ticks = count()
        clock = SimpleNamespace(monotonic=lambda: seconds * next(ticks))
        monkeypatch.setattr("eigen_reptile.training.loop.time", clock)

    return set_clock


@pytest.mark.parametrize("every", [1, 2, 3])
def test_a_checkpoint_between_two_logged_lines_keeps_the_training_time(
    tmp_path: Path, each_iteration_takes: Callable[[float], None], every: int
) -> None:
    each_iteration_takes(100.0)
    uninterrupted = run(CURVES, tmp_path / "uninterrupted")
    assert uninterrupted.learning_curve.seconds == (0.0, 700.0)
    for step in (2, 4):
        each_iteration_takes(100.0)
        with pytest.raises(Interrupted):
            run(CURVES, tmp_path / "run", interrupt_at(step, tmp_path / "run"), checkpoint_every=every)
    each_iteration_takes(100.0)
    continued = run(CURVES, tmp_path / "run", checkpoint_every=every)
    assert continued.learning_curve.seconds == (0.0, 700.0)
    assert continued.seconds >= 700.0  # of all starts together


def test_a_run_that_was_only_tested_again_keeps_its_duration(
    tmp_path: Path, each_iteration_takes: Callable[[float], None]
) -> None:
    each_iteration_takes(100.0)
    run(CURVES, tmp_path)
    (tmp_path / "result.json").unlink()
    again = run(CURVES, tmp_path)
    assert again.learning_curve.seconds == (0.0, 700.0)
    assert again.seconds >= 700.0


def test_a_run_of_one_start_has_its_duration(tmp_path: Path) -> None:
    result = run(replace(CURVES, seeds=(0, 1)), tmp_path)
    assert 0 < result.seconds < 600
