"""Reading result.json: whether it is intact, fits together, lies in range and belongs to the config beside it."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from eigen_reptile.errors import ConfigError, RunError
from eigen_reptile.runtime.files import differences
from eigen_reptile.runtime.run_files import REPAIR, RESTORE, read_config, read_result_file
from eigen_reptile.training.config import Experiment
from eigen_reptile.training.result import LearningCurve, Result, Snapshot, TestScores
from eigen_reptile.training.serialise import from_json, to_json, with_absolute_paths

LONGEST_NAME = 100
"""Of a measure; a longer one does not fit into a table."""


def read_result(file: Path) -> Result:
    """The result in a file; RunError if it is damaged, contradicts itself, or belongs to another experiment."""
    try:
        result = Result.from_json(read_result_file(file))
        if problem := contradiction(result):
            raise ConfigError(f"not a valid result: {problem}")
    except ConfigError as error:
        raise RunError(f"{file} cannot be understood: {error}. {REPAIR}") from error
    config = file.with_name("config.json")
    if config.exists():
        check_belongs(result, read_experiment(config), file)
    return result


def read_experiment(file: Path) -> Experiment:
    """The experiment in the config of a run, or of an evaluation of one; RunError if it cannot be read."""
    value = read_config(file)
    try:
        return from_json(_without_origin(value))
    except ConfigError as error:
        raise RunError(f"{file} cannot be understood: {error}. {RESTORE}") from error


def check_belongs(result: Result, exp: Experiment, file: Path) -> None:
    """Raise RunError if a result is that of another experiment."""
    ours, wanted = (to_json(with_absolute_paths(each)) for each in (result.experiment, exp))
    if different := differences(ours, wanted, ("the result", "this experiment")):
        raise RunError(f"{file} is the result of another experiment: {'; '.join(different[:5])}. {REPAIR}")


def contradiction(result: Result) -> str | None:
    """The first thing that cannot be true of a result; None if it fits together."""
    return next(_contradictions(result), None)


def _without_origin(value: Any) -> Any:
    """Without what the config of an evaluation says about the run that was evaluated."""
    return {name: part for name, part in value.items() if name != "trained"} if isinstance(value, dict) else value


def _contradictions(result: Result) -> Iterator[str]:
    """What cannot be true of a result, in the order of its entries."""
    exp = result.experiment
    expected = "accuracy" if exp.data.is_classification else "squared error"
    if result.measure != expected:
        yield f"`measure` must be {expected}, not {result.measure[:40]!r}"
    if not 0 <= result.steps <= exp.meta.steps:
        yield f"`steps` must be from 0 to {exp.meta.steps}, not {result.steps}"
    if result.seconds < 0:
        yield f"`seconds` must be at least 0, not {result.seconds}"
    count = len(exp.meta.lr) * len(exp.seeds)
    if len(result.replicas) != count or any(
        (found.lr, found.seed) != (replica.lr, replica.seed)
        for found, replica in zip(result.replicas, exp.replicas, strict=True)
    ):
        yield f"`replicas` must be the {count} of the experiment: every step size with every seed"
    yield from _replica_contradictions(result)
    yield from _curve_contradictions(result.learning_curve, result.steps, count, result.measure)
    for snapshot in result.snapshots:
        yield from _snapshot_contradictions(snapshot, result)
    for scores in result.test or ():
        yield from _test_contradictions(scores, len(exp.seeds), result.measure)


def _replica_contradictions(result: Result) -> Iterator[str]:
    for replica in result.replicas:
        if not 0 <= (replica.diverged_at or 0) <= result.steps:
            yield f"`diverged_at` must be from 0 to {result.steps}, not {replica.diverged_at}"
        if not -1 <= (replica.best_at or 0) <= result.steps:
            yield f"`best_at` must be from -1 to {result.steps}, not {replica.best_at}"
        yield from _out_of_range("validation", replica.validation or (), result.measure)
    if result.choice is not None:
        if result.choice.lr not in result.experiment.meta.lr:
            yield f"the chosen `lr` must be one of the experiment's, not {result.choice.lr}"
        yield from _out_of_range("choice", [result.choice.validation], result.measure)
    elif result.test is not None:
        yield "there are test scores without a chosen step size"


def _curve_contradictions(curve: LearningCurve, steps: int, replicas: int, measure: str) -> Iterator[str]:
    if list(curve.step) != sorted(set(curve.step)) or any(not 0 <= step <= steps for step in curve.step):
        yield f"the steps of the learning curve must ascend from 0 to {steps} at most"
    if any((seconds or 0.0) < 0 for seconds in curve.seconds):
        yield "the seconds of the learning curve must be at least 0"
    for scores in curve.score:
        if len(scores) != replicas:
            yield f"a point of the learning curve must have {replicas} scores, one for each replica, not {len(scores)}"
        yield from _out_of_range("score", scores, measure)


def _snapshot_contradictions(snapshot: Snapshot, result: Result) -> Iterator[str]:
    exp = result.experiment
    curves = [curve for replica in snapshot.curves for curve in replica or ()]
    if not 0 <= snapshot.step <= result.steps:
        yield f"the step of a snapshot must be from 0 to {result.steps}, not {snapshot.step}"
    if any(len(curve) != len(snapshot.x) for curve in (snapshot.truth, *curves)) or not snapshot.x:
        yield "`truth` and the curves of a snapshot must have one value for each `x`"
    if len(snapshot.support) != 2 or len(snapshot.support[0]) != len(snapshot.support[1]):
        yield "`support` of a snapshot must hold x and y of the same samples"
    inner_steps = len(exp.evaluation.inner_steps)
    if any(replica is not None and len(replica) != inner_steps for replica in snapshot.curves):
        yield f"a snapshot must have {inner_steps} curves of each replica"
    if len(snapshot.curves) != len(exp.seeds if result.test is not None else result.replicas):
        yield "a snapshot must have the curves of every replica that was tested, or of all if none was"


def _test_contradictions(scores: TestScores, seeds: int, measure: str) -> Iterator[str]:
    if len(scores.per_seed) != seeds:
        yield f"`per_seed` must have {seeds} rows, one for each seed, not {len(scores.per_seed)}"
    if min(scores.shots, scores.tasks, scores.queries) < 1 or not scores.columns:
        yield "`shots`, `queries` and `tasks` must be at least 1, and `columns` must name a measure"
    if len(set(scores.columns)) < len(scores.columns) or any(len(name) > LONGEST_NAME for name in scores.columns):
        yield f"`columns` must name each measure once, with at most {LONGEST_NAME} characters"
    yield from _out_of_range("mean", scores.mean, measure)
    for row in scores.per_seed:
        yield from _out_of_range("per_seed", row, measure)
    for rows in scores.per_task or ():
        for row in rows:
            yield from _out_of_range("per_task", row, measure)
    if any((half or 0.0) < 0 for half in (*scores.ci95_seeds, *scores.ci95_tasks)):
        yield "the half-width of an interval must be at least 0"


def _out_of_range(name: str, scores: Sequence[float | None], measure: str) -> Iterator[str]:
    """An accuracy is a fraction, and a squared error is not negative."""
    most = 1.0 if measure == "accuracy" else float("inf")
    wrong = next((score for score in scores if score is not None and not 0 <= score <= most), None)
    if wrong is not None:
        yield f"a score in `{name}` must be from 0 to {most:g}, not {wrong:g}"
