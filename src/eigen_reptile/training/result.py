"""The result of a run, typed: written to result.json and read from it only here."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast, final

import cattrs
import numpy as np
from jaxtyping import Float

from eigen_reptile.errors import ConfigError
from eigen_reptile.runtime.environment import Environment
from eigen_reptile.runtime.run_files import RESULT_FORMAT
from eigen_reptile.runtime.strict_json import strict_converter, structured
from eigen_reptile.training.config import Experiment
from eigen_reptile.training.old_formats import upgrade_result
from eigen_reptile.training.serialise import from_json, to_json


@final
@dataclass(frozen=True)
class ReplicaResult:
    """The outcome of one replica."""

    lr: float
    seed: int
    diverged_at: int | None
    """Iteration at which it diverged; None if it did not."""
    best_at: int | None
    """Iteration with its best validation score; None in results of early versions, which did not record it."""
    validation: tuple[float | None, ...] | None
    """Final validation scores by every measure, the last of which decides; None if it diverged."""


@final
@dataclass(frozen=True)
class Choice:
    """The outer step size that validation chose."""

    lr: float
    validation: float
    position: str
    """Where the chosen step size lies in the grid: inside it, or at an end, beyond which a better one might be."""
    ci95_tasks: float | None = None
    """Half-width of the 95 % interval of the validation score over tasks, each averaged over the seeds; None for a
    single task, and in results of early versions."""


@final
@dataclass(frozen=True)
class LearningCurve:
    """Validation scores over training."""

    step: tuple[int, ...]
    score: tuple[tuple[float | None, ...], ...]
    """For each step the score of every replica; None where it has diverged."""
    seconds: tuple[float | None, ...]
    """Training time so far, without validation; None where it was not recorded."""

    def __post_init__(self) -> None:
        if not len(self.step) == len(self.score) == len(self.seconds):
            raise ConfigError("`step`, `score` and `seconds` of a learning curve must have the same length")


@final
@dataclass(frozen=True)
class Snapshot:
    """Fitted curves on one fixed regression task, at one outer iteration."""

    step: int
    x: tuple[float, ...]
    truth: tuple[float, ...]
    support: tuple[tuple[float, ...], ...]
    curves: tuple[tuple[tuple[float, ...], ...] | None, ...]
    """For each replica the curve after each number of inner steps; None where it is not finite."""


@final
@dataclass(frozen=True)
class TestScores:
    """Scores on test tasks with one number of shots, with the chosen step size."""

    __test__ = False  # its name does not make it a test case

    shots: int
    queries: int
    tasks: int
    columns: tuple[str, ...]
    """The measures, the last of which decides."""
    mean: tuple[float | None, ...]
    ci95_seeds: tuple[float | None, ...]
    """Half-widths of the 95 % intervals over seeds; None for a single seed."""
    ci95_tasks: tuple[float | None, ...]
    """The same over tasks, each averaged over the seeds: all seeds were given the same tasks."""
    per_seed: tuple[tuple[float | None, ...], ...]
    per_task: tuple[tuple[tuple[float | None, ...], ...], ...] | None
    """For each measure and seed the score of every task, None if it failed; None in results of early versions."""
    failed: tuple[tuple[int, ...], ...] | None = None
    """For each seed the number of tasks that failed by each measure, because predictions were not finite; None if none
    did. A failed task counts as an accuracy of 0; a seed all of whose tasks failed has no accuracy."""

    def __post_init__(self) -> None:
        per_measure: list[Sequence[object]] = [self.mean, self.ci95_seeds, self.ci95_tasks, *self.per_seed]
        if self.per_task is not None:
            per_measure.append(self.per_task)
            if any([len(row) for row in rows] != [self.tasks] * len(self.per_seed) for rows in self.per_task):
                raise ConfigError("`per_task` must hold the scores of every task for each measure and seed")
        if self.failed is not None:
            per_measure += self.failed
            if len(self.failed) != len(self.per_seed):
                raise ConfigError("`failed` must hold a number for each seed and measure")
        if any(len(values) != len(self.columns) for values in per_measure):
            raise ConfigError(f"there must be as many scores as measures: {len(self.columns)}")

    def column(self, name: str) -> "MeasureScores | None":
        """The scores by one measure; None if it was not evaluated."""
        if name not in self.columns:
            return None
        place = self.columns.index(name)
        per_task = None if self.per_task is None else np.array(self.per_task[place], dtype=float)
        return MeasureScores(
            mean=_nan_if_none(self.mean[place]),
            ci95_seeds=self.ci95_seeds[place],
            ci95_tasks=self.ci95_tasks[place],
            per_seed=np.array([row[place] for row in self.per_seed], dtype=float),
            per_task=per_task,
            tasks=self.tasks * len(self.per_seed),
            failed=sum(row[place] for row in self.failed or ()),
        )


class MeasureScores(NamedTuple):
    """Test scores by one measure; NaN where a score is not finite."""

    mean: float
    ci95_seeds: float | None
    ci95_tasks: float | None
    per_seed: Float[np.ndarray, "seeds"]
    per_task: Float[np.ndarray, "seeds tasks"] | None
    tasks: int
    """Tasks of all seeds."""
    failed: int
    """Those of them that failed."""


@final
@dataclass(frozen=True)
class TrainingSource:
    """Where the evaluated initialisation came from, if this run did not train it."""

    experiment: dict[str, Any]
    theta: str
    """SHA-256 of its parameters."""


@final
@dataclass(frozen=True)
class Result:
    """The outcome of an experiment."""

    experiment: Experiment
    measure: str
    """accuracy, or squared error."""
    steps: int
    """Outer iterations that were done."""
    replicas: tuple[ReplicaResult, ...]
    choice: Choice | None
    """None if no outer step size led to a finite score with every seed."""
    learning_curve: LearningCurve
    training: dict[str, float]
    """Statistics of training, averaged over all logged iterations."""
    snapshots: tuple[Snapshot, ...]
    test: tuple[TestScores, ...] | None
    """One entry for each number of shots; None if test tasks were not evaluated."""
    seconds: float
    """Duration of all starts of the run, each up to the checkpoint from which the next one continued."""
    environment: Environment
    trained: TrainingSource | None = None
    classes: dict[str, dict[str, int]] | None = None
    """The number of images of each class of each split, by the name of the class; None if classes have no names, and in
    results of early versions."""
    example: str | None = None
    """SHA-256 of the file with the example task; None if there is no such file, and in results of early versions."""

    def test_with(self, shots: int) -> TestScores | None:
        """The test scores with this number of shots."""
        return next((scores for scores in self.test or () if scores.shots == shots), None)

    def to_json(self) -> dict[str, Any]:
        return {"format": RESULT_FORMAT, **cast(dict[str, Any], _CONVERTER.unstructure(self))}

    @staticmethod
    def from_json(value: Any) -> "Result":
        """The result that this or an earlier version wrote; ConfigError if it is not one."""
        if not isinstance(value, dict):
            raise ConfigError("not a result: it is not a JSON object")
        upgraded = upgrade_result(value)
        if upgraded.pop("format", None) != RESULT_FORMAT:
            raise ConfigError(f"not a result of this version (format {RESULT_FORMAT})")
        try:
            return cast(Result, structured(_CONVERTER, upgraded, Result))
        except ValueError as error:
            raise ConfigError(f"not a valid result: {error}") from error


def _nan_if_none(value: float | None) -> float:
    return math.nan if value is None else value


def _make_converter() -> cattrs.Converter:
    converter = strict_converter()
    converter.register_structure_hook(Experiment, lambda value, _: from_json(value))
    converter.register_unstructure_hook(Experiment, to_json)
    return converter


_CONVERTER = _make_converter()
