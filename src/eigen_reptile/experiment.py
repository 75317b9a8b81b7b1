"""One experiment from start to result: bank -> learner -> train -> choose on validation -> test."""

import math
import platform
import subprocess
import sys
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch

from eigen_reptile.config import Experiment, to_json
from eigen_reptile.evaluate import EvalResult, evaluate, interval95
from eigen_reptile.inner import InnerState
from eigen_reptile.learner import Learner, squared_error
from eigen_reptile.runs import RunDir, RunError
from eigen_reptile.train import Progress, TrainState, train

RESULT_FORMAT = 1


def build_learner(exp: Experiment) -> Learner:
    """The experiment's network as a function of theta."""
    return Learner(lambda: exp.model.build(exp.data.features, exp.data.targets), squared_error)


def run_experiment(exp: Experiment, folder: Path, progress: Progress, checkpoint_every: int = 1000) -> dict[str, Any]:
    """Train, choose and test in this folder; continue what is there; return what result.json holds."""
    if checkpoint_every < 1:
        raise ValueError(f"checkpoint_every must be at least 1, not {checkpoint_every}")
    with RunDir.open(folder, to_json(exp)) as run:
        finished = run.result()
        if finished is not None:
            progress(exp.meta.steps, {})
            return finished
        here = environment()
        started = time.monotonic()
        learner = build_learner(exp)
        try:
            run.save_environment(here)
            state = train(exp, learner, exp.data, run, checkpoint_every, progress)
            result = conclude(exp, learner, state, run.metrics()) | {
                "seconds": round(time.monotonic() - started, 1),
                "environment": here,
            }
            run.save_result(result)
        except RunError as error:
            raise RunError(
                f"{error}. Nothing before the last checkpoint is lost: mend this, then repeat the command"
            ) from error
        return result


def conclude(exp: Experiment, learner: Learner, state: TrainState, metrics: list[dict[str, Any]]) -> dict[str, Any]:
    """The result of trained lanes: validation of all, the choice among step sizes, the test of the chosen."""
    validation = _evaluate(exp, learner, state, "validation").of_lanes()
    errors = {
        lr: _mean_error(validation[_lanes_of(exp, lr)], state.diverged_at[_lanes_of(exp, lr)]) for lr in exp.meta.lr
    }
    choice = choose(errors)
    result: dict[str, Any] = {
        "format": RESULT_FORMAT,
        "experiment": to_json(exp),
        "lanes": [
            {
                "lr": lane.lr,
                "seed": lane.seed,
                "diverged_at": int(at) if at >= 0 else None,
                "validation": _rounded(errors_after) if at < 0 and math.isfinite(errors_after[-1]) else None,
            }
            for lane, at, errors_after in zip(exp.lanes, state.diverged_at.tolist(), validation, strict=True)
        ],
        "choice": choice,
        "history": {
            "step": [line["step"] for line in metrics if line["kind"] == "validation"],
            "error": [line["error"] for line in metrics if line["kind"] == "validation"],
        },
        "pictures": [line for line in metrics if line["kind"] == "picture"],
        "test": None,
    }
    if choice is not None:
        chosen = _lanes_of(exp, choice["lr"])
        of_chosen = state._replace(
            theta=state.theta[chosen], memory=InnerState(*(part[chosen] for part in state.memory))
        )
        result["test"] = _summarise(exp, _evaluate(exp, learner, of_chosen, "test"))
        result["pictures"] = [
            line | {"curves": [line["curves"][lane] for lane in chosen]} for line in result["pictures"]
        ]
    return result


def choose(errors: Mapping[float, float | None]) -> dict[str, Any] | None:
    """The step size with the smallest validation error, and whether the grid reaches beyond it.

    `None` stands for a step size with which a seed diverged. No choice is possible if all did.
    """
    finite = {lr: error for lr, error in errors.items() if error is not None}
    if not finite:
        return None
    best = min(finite, key=lambda lr: finite[lr])
    grid = sorted(errors)
    place = grid.index(best)
    if len(grid) == 1:
        bracket = "only one step size"
    elif place == 0:
        bracket = "lower end of the grid"
    elif place == len(grid) - 1:
        bracket = "upper end of the grid"
    elif errors[grid[place + 1]] is None:
        bracket = "the next step size diverges"
    else:
        bracket = "inside the grid"
    return {"lr": best, "validation": float(f"{finite[best]:.6g}"), "bracket": bracket}


def environment() -> dict[str, Any]:
    """What this result depends on besides the experiment."""
    return {
        "command": " ".join([Path(sys.argv[0]).name, *sys.argv[1:]]),
        "version": version("eigen-reptile"),
        "commit": _commit(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "machine": platform.machine(),
        "threads": torch.get_num_threads(),
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _commit() -> str | None:
    """The commit of the source tree that this file belongs to, marked if the tree was changed since; else None."""
    tracked = _git("ls-files", "--error-unmatch", Path(__file__).name)
    return _git("describe", "--always", "--dirty", "--abbrev=12", "--exclude=*") if tracked else None


def _git(*words: str) -> str | None:
    """What git says in this file's folder; None if it has nothing to say or is not there."""
    command = ["git", "-C", str(Path(__file__).parent), *words]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return answer.stdout.strip() or None


def _evaluate(exp: Experiment, learner: Learner, state: TrainState, split: Any) -> EvalResult:
    return evaluate(learner, exp.data, state.theta, state.memory, exp.inner, exp.evaluation, split)


def _lanes_of(exp: Experiment, lr: float) -> list[int]:
    return [number for number, lane in enumerate(exp.lanes) if lane.lr == lr]


def _mean_error(errors: np.ndarray, diverged_at: torch.Tensor) -> float | None:
    """Mean over the seeds after the last step; None if a seed diverged or cannot be evaluated."""
    mean = float(errors[:, -1].mean())
    return mean if bool((diverged_at < 0).all()) and math.isfinite(mean) else None


def _summarise(exp: Experiment, result: EvalResult) -> dict[str, Any]:
    """Errors on the test tasks: per seed, and their mean and interval over the seeds.

    The mean over the grid times the width of the interval [low, high] is the paper's integral.
    """
    per_seed = result.of_lanes()
    width = exp.data.high - exp.data.low
    means, halves = zip(*(interval95(column) for column in per_seed.T), strict=True)
    return {
        "after": list(exp.evaluation.after),
        "per_seed": [_rounded(row) for row in per_seed],
        "mean": _rounded(means),
        "ci95": _rounded(halves),
        "integral": _rounded([width * mean for mean in means]),
        "integral_ci95": _rounded([width * half for half in halves]),
    }


def _rounded(values: Any) -> list[float | None]:
    """Six digits; None for what is not finite, as the interval of a single seed."""
    return [float(f"{value:.6g}") if math.isfinite(value) else None for value in values]
