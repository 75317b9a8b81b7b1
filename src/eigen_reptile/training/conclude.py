"""From trained replicas to a result: validate all of them, choose a step size, and test the replicas that used it."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from eigen_reptile.inner import InnerState
from eigen_reptile.methods.wrappers.sample_selection import selection_scores
from eigen_reptile.runtime.environment import Environment
from eigen_reptile.runtime.progress import StartProgress, no_progress
from eigen_reptile.runtime.run_folder import RunLog
from eigen_reptile.training.config import Experiment
from eigen_reptile.training.evaluate import Initialisation, Scores, interval95
from eigen_reptile.training.held_out import evaluate_test, validate
from eigen_reptile.training.illustrate import predict_example
from eigen_reptile.training.result import (
    Choice,
    LearningCurve,
    ReplicaResult,
    Result,
    Snapshot,
    TestScores,
    TrainingSource,
)
from eigen_reptile.training.setup import Setup
from eigen_reptile.training.state import TrainState

SHOWN_QUERIES = 3
MOST_SHOWN = 2**24
"""Limit for the bytes of the images of an example task."""


def conclude(
    setup: Setup,
    state: TrainState,
    log: RunLog,
    metrics: Sequence[Mapping[str, Any]],
    environment: Environment,
    start_progress: StartProgress = no_progress,
    trained: TrainingSource | None = None,
) -> Result:
    """The result of trained replicas; its `seconds` are zero, because only the caller knows them.

    Scores of tasks are kept in `log` until the result is saved there.
    """
    exp = setup.exp
    initialisation = _initialisation(setup, state)
    count = exp.evaluation.tasks
    validated = validate(setup, initialisation, count, start_progress("validation tasks", count), log)
    choice = _choice(exp, validated, state)
    snapshots = [_snapshot(line) for line in metrics if line["kind"] == "snapshot"]
    test = None
    if choice is not None and exp.evaluation.test:
        chosen = _replicas_with(exp, choice.lr)
        test = _test_scores(setup, _select_replicas(initialisation, chosen), log, start_progress)
        snapshots = [_snapshot_of_replicas(snapshot, chosen) for snapshot in snapshots]
    curve = [line for line in metrics if line["kind"] == "validation"]
    statistics = _mean_statistics([line for line in metrics if line["kind"] == "train"])
    return Result(
        experiment=exp,
        measure="accuracy" if exp.data.is_classification else "squared error",
        steps=state.step,
        replicas=_replica_results(exp, state, validated.per_replica()),
        choice=choice,
        learning_curve=LearningCurve(
            step=tuple(line["step"] for line in curve),
            score=tuple(tuple(line["scores"]) for line in curve),
            seconds=tuple(line.get("seconds") for line in curve),
        ),
        # Precision and recall once more: ratios of means instead of means of ratios.
        training=statistics | selection_scores(statistics),
        snapshots=tuple(snapshots),
        test=test,
        seconds=0.0,
        environment=environment,
        trained=trained,
        classes=setup.classes,
    )


def _replica_results(exp: Experiment, state: TrainState, validation: np.ndarray) -> tuple[ReplicaResult, ...]:
    rows = zip(exp.replicas, state.diverged_at.tolist(), state.best.step.tolist(), validation, strict=True)
    return tuple(
        ReplicaResult(
            lr=replica.lr,
            seed=replica.seed,
            diverged_at=int(diverged_at) if diverged_at >= 0 else None,
            best_at=int(best),
            validation=_rounded(scores) if diverged_at < 0 and math.isfinite(scores[-1]) else None,
        )
        for replica, diverged_at, best, scores in rows
    )


def _test_scores(
    setup: Setup, initialisation: Initialisation, log: RunLog, start_progress: StartProgress
) -> tuple[TestScores, ...]:
    found = []
    for shape in setup.tests:
        report = start_progress(f"test tasks, {shape.shots}-shot", setup.exp.evaluation.tasks)
        scores = evaluate_test(setup, initialisation, shape, report, log)
        found.append(summarise_scores(scores, shape.shots, shape.queries))
    return tuple(found)


def _choice(exp: Experiment, validated: Scores, state: TrainState) -> Choice | None:
    """The choice of a step size, with the interval of its validation score over tasks."""
    means = validated.per_replica()
    choice = choose_step_size(
        {lr: _mean_score(exp, lr, means, state) for lr in exp.meta.lr}, exp.data.is_classification
    )
    if choice is None:
        return None
    per_task = validated.counted[_replicas_with(exp, choice.lr), :, -1].mean(0)
    (half_width,) = _rounded([interval95(per_task)[1]])
    return replace(choice, ci95_tasks=half_width)


def choose_step_size(scores: Mapping[float, float | None], higher_is_better: bool) -> Choice | None:
    """The step size with the best validation score, and its position in the grid.

    A score of None marks a step size with which some seed diverged. There is no choice if that is so for all.
    """
    finite = {lr: score for lr, score in scores.items() if score is not None}
    if not finite:
        return None
    best = (max if higher_is_better else min)(finite, key=lambda lr: finite[lr])
    grid = sorted(scores)
    index = grid.index(best)
    if len(grid) == 1:
        position = "only one step size"
    elif index == 0:
        position = "lower end of the grid"
    elif index == len(grid) - 1:
        position = "upper end of the grid"
    elif scores[grid[index + 1]] is None:
        position = "the next step size diverges"
    else:
        position = "inside the grid"
    return Choice(best, float(f"{finite[best]:.6g}"), position)


def summarise_scores(scores: Scores, shots: int, queries: int) -> TestScores:
    """Means and intervals over seeds and over tasks, with all scores behind them."""
    per_seed, per_task = scores.per_replica(), scores.counted.mean(0)
    failed = (~np.isfinite(scores.values)).sum(1)
    return TestScores(
        shots=shots,
        queries=queries,
        tasks=scores.values.shape[1],
        columns=tuple(scores.columns),
        mean=_rounded(per_seed.mean(0)),
        ci95_seeds=_rounded([interval95(column)[1] for column in per_seed.T]),
        ci95_tasks=_rounded([interval95(column)[1] for column in per_task.T]),
        per_seed=tuple(_rounded(row) for row in per_seed),
        per_task=tuple(tuple(_rounded(tasks, 4) for tasks in column) for column in np.moveaxis(scores.values, 2, 0)),
        failed=tuple(map(tuple, failed.tolist())) if failed.any() else None,
    )


def example_task(setup: Setup, state: TrainState, lr: float) -> dict[str, torch.Tensor]:
    """One support image of each class of a test task and some queries, as bytes, with one replica's predictions.

    `classes` has the indices of the task's classes in the test split.
    """
    shape = setup.tests[0]
    initialisation = _select_replicas(_initialisation(setup, state), _replicas_with(setup.exp, lr)[:1])
    found = predict_example(setup.tested, setup.banks.test, initialisation, setup.exp.evaluation, shape)
    task, shown = found.task, min(SHOWN_QUERIES, shape.queries)
    queries = torch.arange(shape.way * shape.queries).view(shape.way, shape.queries)[:, :shown].flatten()
    support = torch.arange(shape.way) * shape.shots
    return {
        "support": task.x[0, 0, support].cpu(),
        "query": task.query_x[0, 0, queries].cpu(),
        "query_y": task.query_y[0, 0, queries].cpu(),
        "classes": task.classes[0, 0].cpu(),
        "predicted": torch.from_numpy(found.predicted)[0, queries],
    }


def example_problem(tensors: Mapping[str, torch.Tensor]) -> str:
    """What is wrong with tensors that were read as an example task; empty if nothing is."""
    kinds = {"support": torch.uint8, "query": torch.uint8, "query_y": torch.int64, "predicted": torch.int64}
    found = {name: tensor.dtype for name, tensor in tensors.items()}
    if {"classes": torch.int64} | found != {"classes": torch.int64} | kinds:  # earlier versions stored no classes
        return "it must contain " + ", ".join(f"{name} of {kind}" for name, kind in kinds.items())
    support, query, query_y, predicted = (tensors[name] for name in kinds)
    way, queries = support.shape[:1].numel(), query.shape[:1].numel()
    if support.ndim != 4 or support.shape[1] not in (1, 3) or query.shape[1:] != support.shape[1:]:
        return "its images do not have the same size and one or three channels"
    if not 0 < way <= queries or queries % way or max(support.numel(), query.numel()) > MOST_SHOWN:
        return f"{queries} queries and {way} classes cannot be shown"
    if query_y.shape != (queries,) or predicted.shape != (queries,):
        return "its labels do not belong to its queries"
    if not bool(((query_y >= 0) & (query_y < way)).all()):
        return f"its labels are not below {way}"
    if (classes := tensors.get("classes")) is not None and (classes.shape != (way,) or bool((classes < 0).any())):
        return "its classes do not belong to its support"
    return ""


def _initialisation(setup: Setup, state: TrainState) -> Initialisation:
    """What is evaluated at the end: the last initialisation of each replica, or its best."""
    kept = state.best if setup.exp.meta.keep == "best" else state
    return setup.initialisation(kept.theta, kept.inner_state)


def _select_replicas(initialisation: Initialisation, replicas: list[int]) -> Initialisation:
    state = InnerState(*(part[replicas] for part in initialisation.inner_state))
    return initialisation._replace(theta=initialisation.theta[replicas], inner_state=state)


def _replicas_with(exp: Experiment, lr: float) -> list[int]:
    return [number for number, replica in enumerate(exp.replicas) if replica.lr == lr]


def _mean_score(exp: Experiment, lr: float, scores: np.ndarray, state: TrainState) -> float | None:
    """Mean over the seeds by the decisive measure; None if a seed diverged or its score is not finite."""
    replicas = _replicas_with(exp, lr)
    mean = float(scores[replicas, -1].mean())
    return mean if bool((state.diverged_at[replicas] < 0).all()) and math.isfinite(mean) else None


def _snapshot(line: Mapping[str, Any]) -> Snapshot:
    curves = (None if curves is None else tuple(map(tuple, curves)) for curves in line["curves"])
    support = tuple(map(tuple, line["support"]))
    return Snapshot(line["step"], tuple(line["x"]), tuple(line["truth"]), support, tuple(curves))


def _snapshot_of_replicas(snapshot: Snapshot, replicas: list[int]) -> Snapshot:
    curves = tuple(snapshot.curves[replica] for replica in replicas)
    return Snapshot(snapshot.step, snapshot.x, snapshot.truth, snapshot.support, curves)


def _mean_statistics(lines: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Averages over the logged lines, except for the speed, which depends on the machine."""
    names = dict.fromkeys(
        name for line in lines for name in line if not name.endswith(("kind", "step", "second", "seconds"))
    )
    return {name: float(f"{np.mean([line[name] for line in lines if name in line]):.4g}") for name in names}


def _rounded(values: Any, digits: int = 6) -> tuple[float | None, ...]:
    """Rounded to significant digits; None for what is not finite, such as the interval of a single seed."""
    return tuple(float(f"{value:.{digits}g}") if math.isfinite(value) else None for value in values)
