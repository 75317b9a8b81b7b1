"""What result.json holds: validation of all lanes, the choice among them, the test of the chosen."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from eigen_reptile.config import Experiment, to_json
from eigen_reptile.evaluate import Scores, Start, example, interval95
from eigen_reptile.files import read_tensors
from eigen_reptile.inner import InnerState
from eigen_reptile.progress import Announce, silent
from eigen_reptile.stage import Stage, test, validate
from eigen_reptile.state import TrainState

RESULT_FORMAT = 2
EXAMPLES = "example.safetensors"
SHOWN_QUERIES = 3


def conclude(
    stage: Stage, state: TrainState, metrics: list[dict[str, Any]], announce: Announce = silent
) -> dict[str, Any]:
    """The result of trained lanes: validation of all, the choice among step sizes, the test of the chosen."""
    exp = stage.exp
    start = _start(exp, state)
    count = exp.evaluation.tasks
    validation = validate(stage, start, count, announce("validation tasks", count)).of_lanes()
    scores = {
        lr: _mean_score(validation[_lanes_of(exp, lr)], state.diverged_at[_lanes_of(exp, lr)]) for lr in exp.meta.lr
    }
    choice = choose(scores, exp.data.classifies)
    result: dict[str, Any] = {
        "format": RESULT_FORMAT,
        "experiment": to_json(exp),
        "measure": "accuracy" if exp.data.classifies else "squared error",
        "steps": state.step,
        "lanes": [
            {
                "lr": lane.lr,
                "seed": lane.seed,
                "diverged_at": int(at) if at >= 0 else None,
                "best_at": int(best),
                "validation": _rounded(reached) if at < 0 and math.isfinite(reached[-1]) else None,
            }
            for lane, at, best, reached in zip(
                exp.lanes, state.diverged_at.tolist(), state.best.step.tolist(), validation, strict=True
            )
        ],
        "choice": choice,
        "history": {
            "step": [line["step"] for line in metrics if line["kind"] == "validation"],
            "score": [line["scores"] for line in metrics if line["kind"] == "validation"],
        },
        # Without validation; at each point of the history, but not in it: what is in it does not depend on the machine.
        "training_seconds": [line.get("seconds") for line in metrics if line["kind"] == "validation"],
        # Once more the summary, for ratios of means instead of means of ratios.
        "training": exp.method.summary(_means([line for line in metrics if line["kind"] == "train"])),
        "pictures": [line for line in metrics if line["kind"] == "picture"],
        "test": None,
    }
    if choice is not None and exp.evaluation.test:
        chosen = _lanes_of(exp, choice["lr"])
        of_chosen = _of_lanes(start, chosen)
        result["test"] = [
            {"shots": shape.shots, "queries": shape.queries, "tasks": count}
            | summarise(test(stage, of_chosen, shape, announce(f"test tasks, {shape.shots}-shot", count)))
            for shape in stage.tests
        ]
        result["pictures"] = [
            line | {"curves": [line["curves"][lane] for lane in chosen]} for line in result["pictures"]
        ]
    return result


def choose(scores: Mapping[float, float | None], higher_is_better: bool) -> dict[str, Any] | None:
    """The step size with the best validation score, and whether the grid reaches beyond it.

    `None` stands for a step size with which a seed diverged. No choice is possible if all did.
    """
    finite = {lr: score for lr, score in scores.items() if score is not None}
    if not finite:
        return None
    best = (max if higher_is_better else min)(finite, key=lambda lr: finite[lr])
    grid = sorted(scores)
    place = grid.index(best)
    if len(grid) == 1:
        bracket = "only one step size"
    elif place == 0:
        bracket = "lower end of the grid"
    elif place == len(grid) - 1:
        bracket = "upper end of the grid"
    elif scores[grid[place + 1]] is None:
        bracket = "the next step size diverges"
    else:
        bracket = "inside the grid"
    return {"lr": best, "validation": float(f"{finite[best]:.6g}"), "bracket": bracket}


def summarise(scores: Scores) -> dict[str, Any]:
    """Scores as a result keeps them: for each measure the mean, its intervals over seeds and over tasks, and all.

    The interval over tasks is that of the tasks' means over the seeds: all seeds were given the same tasks.
    """
    per_seed, per_task = scores.of_lanes(), scores.values.mean(0)
    return {
        "columns": list(scores.columns),
        "mean": _rounded(per_seed.mean(0)),
        "ci95_seeds": _rounded([interval95(column)[1] for column in per_seed.T]),
        "ci95_tasks": _rounded([interval95(column)[1] for column in per_task.T]),
        "per_seed": [_rounded(row) for row in per_seed],
        "per_task": [[_rounded(tasks, 4) for tasks in column] for column in np.moveaxis(scores.values, 2, 0)],
    }


def read_examples(folder: Path) -> dict[str, np.ndarray] | None:
    """The example task that a run kept to be looked at, if it kept one."""
    file = folder / EXAMPLES
    return {name: tensor.numpy() for name, tensor in read_tensors(file).items()} if file.exists() else None


def example_task(stage: Stage, state: TrainState, lr: float) -> dict[str, torch.Tensor]:
    """One support picture of each class of a test task and some queries, as bytes, with one lane's predictions."""
    shape = stage.tests[0]
    start = _of_lanes(_start(stage.exp, state), _lanes_of(stage.exp, lr)[:1])
    found = example(stage.learner, stage.banks.test, start, stage.exp.evaluation, shape)
    task, shown = found.task, min(SHOWN_QUERIES, shape.queries)
    queries = torch.arange(shape.way * shape.queries).view(shape.way, shape.queries)[:, :shown].flatten()
    support = torch.arange(shape.way) * shape.shots
    return {
        "support": task.x[0, 0, support].cpu(),
        "query": task.query_x[0, 0, queries].cpu(),
        "query_y": task.query_y[0, 0, queries].cpu(),
        "predicted": torch.from_numpy(found.predicted)[0, queries],
    }


def _start(exp: Experiment, state: TrainState) -> Start:
    """What is judged in the end: each lane as it is, or as it was at its best."""
    kept = state.best if exp.meta.keep == "best" else state
    return Start(kept.theta, kept.memory, exp.inner, exp.method)


def _of_lanes(start: Start, lanes: list[int]) -> Start:
    return start._replace(theta=start.theta[lanes], memory=InnerState(*(part[lanes] for part in start.memory)))


def _lanes_of(exp: Experiment, lr: float) -> list[int]:
    return [number for number, lane in enumerate(exp.lanes) if lane.lr == lr]


def _mean_score(scores: np.ndarray, diverged_at: torch.Tensor) -> float | None:
    """Mean over the seeds by the measure that decides; None if a seed diverged or cannot be evaluated."""
    mean = float(scores[:, -1].mean())
    return mean if bool((diverged_at < 0).all()) and math.isfinite(mean) else None


def _means(lines: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """What was logged while training, on average over the lines that have it; but for the speed, which is chance."""
    names = dict.fromkeys(
        name for line in lines for name in line if not name.endswith(("kind", "step", "second", "seconds"))
    )
    return {name: float(f"{np.mean([line[name] for line in lines if name in line]):.4g}") for name in names}


def _rounded(values: Any, digits: int = 6) -> list[float | None]:
    """So many digits; None for what is not finite, as the interval of a single seed."""
    return [float(f"{value:.{digits}g}") if math.isfinite(value) else None for value in values]
