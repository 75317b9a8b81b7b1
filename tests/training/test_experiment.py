"""Whole experiments in a run folder, and evaluations of finished runs."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import final

import numpy as np
import pytest

from doubles import ImageDouble, WrappedBank
from eigen_reptile.data import Banks, Samples, TaskShape
from eigen_reptile.errors import ConfigError, RunError
from eigen_reptile.inner import InnerConfig
from eigen_reptile.runtime.checksums import with_checksum
from eigen_reptile.runtime.progress import StartProgress
from eigen_reptile.training.config import Experiment, MetaConfig
from eigen_reptile.training.evaluate import EvalConfig
from eigen_reptile.training.experiment import ExperimentJob, evaluate_run, run
from eigen_reptile.training.result import Result
from eigen_reptile.training.saved_result import read_result
from eigen_reptile.training.trained import trained_experiment
from patterns import SMALL, Patterns

CURVES = Experiment(
    meta=MetaConfig(steps=4, lr=(0.5,)),
    evaluation=EvalConfig(tasks=3, monitor_tasks=2, every=2, shots=(3,), inner_steps=(0, 2), snapshot_steps=(1,)),
    compile="off",
)


@final
class Untouchable(WrappedBank):
    """A bank that can describe its tasks, but must not be drawn from."""

    def draw_tasks(self, count: int, task: TaskShape, rngs: Sequence[np.random.Generator]) -> Samples:
        raise AssertionError("a test task was drawn")


@final
@dataclass(frozen=True)
class WithoutTest(ImageDouble):
    """Images whose test split must not be drawn from."""

    def load(self, start_progress: StartProgress) -> Banks:
        banks = Patterns().load(start_progress)
        return banks._replace(test=Untouchable(banks.test))


def test_test_tasks_are_drawn_only_after_training_and_only_if_wanted(tmp_path: Path) -> None:
    tested = replace(SMALL, data=WithoutTest(), meta=replace(SMALL.meta, steps=8, lr=(0.5, 1.0)))
    untested = replace(tested, evaluation=replace(tested.evaluation, test=False))
    result = run(untested, tmp_path / "untested")
    assert result.test is None
    assert result.choice is not None
    assert result.choice.lr in (0.5, 1.0)
    assert all(replica.validation is not None for replica in result.replicas)
    with pytest.raises(AssertionError, match="a test task was drawn"):
        run(tested, tmp_path / "tested")
    assert len((tmp_path / "tested/metrics.jsonl").read_text().splitlines()) == 4  # after the whole training


def test_a_result_is_stored_and_returned_again(tmp_path: Path) -> None:
    result = run(CURVES, tmp_path)
    assert read_result(tmp_path / "result.json") == result == run(CURVES, tmp_path)
    assert result.experiment == CURVES == trained_experiment(tmp_path)
    assert len(json.loads((tmp_path / "environment.json").read_text())) == 1  # the second call did nothing
    with pytest.raises(ConfigError, match="belongs to another experiment: seeds"):
        run(replace(CURVES, seeds=(1,)), tmp_path)


def test_an_evaluation_of_a_finished_run_gives_its_scores_without_training(tmp_path: Path) -> None:
    result = run(CURVES, tmp_path / "run")
    longer = replace(CURVES, evaluation=replace(CURVES.evaluation, tasks=5))
    again = evaluate_run(tmp_path / "run", longer, tmp_path / "again")
    assert result.test is not None
    assert again.test is not None
    first, second = result.test[0].per_task, again.test[0].per_task
    assert first is not None
    assert second is not None
    assert [[row[:3] for row in rows] for rows in second] == [list(rows) for rows in first]
    assert again.learning_curve == result.learning_curve
    assert (again.steps, again.snapshots) == (4, ())
    assert again.trained is not None
    assert read_result(tmp_path / "again" / "result.json") == again


def test_only_the_folder_of_a_finished_run_can_be_evaluated(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is not the folder of a run"):
        trained_experiment(tmp_path)
    folder = tmp_path / "run"
    result = run(CURVES, folder)
    text = (folder / "result.json").read_text()
    (folder / "result.json").write_text("[" * 100_000)
    with pytest.raises(ConfigError, match=r"is not the folder of a run: .*is not valid JSON"):
        trained_experiment(folder)
    diverged = replace(result, choice=None, test=None)
    (folder / "result.json").write_text(json.dumps(with_checksum(diverged.to_json())))
    with pytest.raises(ConfigError, match="has diverged"):
        trained_experiment(folder)
    (folder / "result.json").write_text(text)
    for checkpoint in (folder / "checkpoints").iterdir():
        checkpoint.unlink()
    with pytest.raises(ConfigError, match=r"checkpoint in .* is missing or damaged"):
        evaluate_run(folder, CURVES, tmp_path / "again")


def test_damage_is_not_said_to_be_saved_progress(tmp_path: Path) -> None:
    run(CURVES, tmp_path)
    (tmp_path / "result.json").unlink()
    (tmp_path / "metrics.jsonl").write_bytes(b"")
    with pytest.raises(RunError, match=r"metrics\.jsonl .* to train from the beginning$"):
        run(CURVES, tmp_path)


def test_a_run_on_other_data_is_evaluated_only_if_its_parameters_fit(tmp_path: Path) -> None:
    exp = replace(SMALL, meta=replace(SMALL.meta, steps=1), seeds=(0,))
    run(exp, tmp_path / "run")
    with pytest.raises(ConfigError, match="do not fit this data set"):
        evaluate_run(tmp_path / "run", replace(exp, data=Patterns(side=33)), tmp_path / "again")
    assert not (tmp_path / "again").exists()


def test_a_job_stores_a_result_only_once(tmp_path: Path) -> None:
    job = ExperimentJob("curves", CURVES, tmp_path / "run")
    result = run(CURVES, tmp_path / "elsewhere")
    job.save(result)
    job.save(replace(result, seconds=1e6))
    assert read_result(tmp_path / "run" / "result.json") == result == job.run(lambda name, total: lambda done, _: None)
    assert isinstance(result, Result)


def test_checkpoint_intervals_below_one_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="`checkpoint_every` must be at least 1, not 0"):
        run(CURVES, tmp_path / "run", checkpoint_every=0)


def test_a_run_whose_predictions_are_never_finite_has_no_accuracy(tmp_path: Path) -> None:
    inner = InnerConfig(steps=1, batch=5, lr=1e25)  # one step is finite, and so is a tiny part of it
    exp = replace(SMALL, inner=inner, meta=MetaConfig(steps=2, lr=(1e-30,), batch=2, keep="last"))
    result = run(exp, tmp_path)
    assert [replica.diverged_at for replica in result.replicas] == [None] * len(exp.seeds)
    assert [replica.validation for replica in result.replicas] == [None] * len(exp.seeds)
    assert (result.choice, result.test) == (None, None)
    assert all(score is None for row in result.learning_curve.score for score in row)
