"""One experiment from start to result: bank -> learner -> train -> choose on validation -> test."""

import hashlib
import json
import math
import platform
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch

from eigen_reptile.config import Experiment, from_json, to_json
from eigen_reptile.distributed import ALONE, Workers
from eigen_reptile.evaluate import Scores, Start, example, interval95
from eigen_reptile.files import FolderError, RunError, read_json, read_tensors
from eigen_reptile.inner import InnerState
from eigen_reptile.progress import Announce, silent
from eigen_reptile.runs import Elsewhere, RunDir, RunLog
from eigen_reptile.stage import Device, Stage, found_device, prepare, test, validate
from eigen_reptile.state import TrainState
from eigen_reptile.train import settle_machine, train

RESULT_FORMAT = 2
EXAMPLES = "example.safetensors"
SHOWN_QUERIES = 3


def run_experiment(
    exp: Experiment,
    folder: Path,
    announce: Announce = silent,
    checkpoint_every: int = 1000,
    device: Device = "auto",
    workers: Workers = ALONE,
) -> dict[str, Any]:
    """Train, choose and test in this folder; continue what is there; return what result.json holds.

    Of several workers each calls this with the same arguments, and only the lead uses the folder.
    """
    if checkpoint_every < 1:
        raise ValueError(f"checkpoint_every must be at least 1, not {checkpoint_every}")
    place = found_device(device)
    # Before the folder is made, so that nothing is left behind if the data cannot be used.
    finished = _of_lead((folder / "result.json").exists(), workers, place)
    stage = None if finished else prepare(exp, announce, device, workers)
    with _opened(folder, exp, workers, place) as run:
        report = announce(folder.name, exp.meta.steps)
        found: dict[str, Any] | None = _of_lead(run.result(), workers, place)
        if found is not None:
            report(exp.meta.steps, {})
            return found
        stage = stage or prepare(exp, announce, device, workers)
        here = environment(stage.device) | {"workers": workers.count}
        started = time.monotonic()
        try:
            run.save_environment(here)
            state = train(stage, run, checkpoint_every, report)
            result = conclude(stage, state, run.metrics(), announce)
            result |= {"seconds": round(time.monotonic() - started, 1), "environment": here}
            _keep(run, stage, state, result)
        except RunError as error:
            raise RunError(
                f"{error}. Nothing before the last checkpoint is lost: mend this, then repeat the command"
            ) from error
        shared: dict[str, Any] = _of_lead(result, workers, place)
        return shared


def evaluate_again(
    trained: Path, exp: Experiment, folder: Path, announce: Announce = silent, device: Device = "auto"
) -> dict[str, Any]:
    """Choose and test with what the finished run in `trained` has learnt; return what result.json in `folder` holds.

    `exp` is that run's experiment with another evaluation, or other data. The folder's config says what was trained.
    """
    source, before = RunDir(trained), finished_experiment(trained)
    checkpoint, steps = source.load_checkpoint(), (source.result() or {}).get("steps")
    if checkpoint is None or checkpoint.step != steps:
        raise FolderError(f"the last checkpoint in {trained} is not there any more, or damaged: train it again")
    settle_machine()
    stage = prepare(exp, announce, device)
    try:
        state = TrainState.fresh(stage).restored(checkpoint.step, checkpoint.tensors)
    except RunError as error:
        raise FolderError(f"what {trained} has learnt does not fit these data: {error}") from error
    digest = hashlib.sha256(state.theta.cpu().numpy().tobytes()).hexdigest()
    origin = {"trained": {"experiment": to_json(before), "theta": digest}}
    with RunDir.open(folder, to_json(exp) | origin) as run:
        if (found := run.result()) is not None:
            return found
        started, here = time.monotonic(), environment(stage.device)
        run.save_environment(here)
        logged = [line for line in source.metrics() if line["kind"] != "picture"]  # of the evaluation that was
        result = conclude(stage, state, logged, announce)
        result |= {"seconds": round(time.monotonic() - started, 1), "environment": here} | origin
        _keep(run, stage, state, result)
        return result


def finished_experiment(folder: Path) -> Experiment:
    """What the run in this folder is a run of, if it has come to a good end."""
    try:
        exp, result = from_json(read_json(folder / "config.json")), RunDir(folder).result()
        chosen = None if result is None else result["choice"]
    except (RunError, ValueError, KeyError, TypeError) as error:
        raise FolderError(f"{folder} is not the folder of a run: {error}") from error
    if result is None:
        raise FolderError(f"the run in {folder} is not finished: repeat its command first")
    if chosen is None:
        raise FolderError(f"the run in {folder} has diverged: it has learnt nothing that could be tested")
    return exp


def _keep(run: RunLog, stage: Stage, state: TrainState, result: Mapping[str, Any]) -> None:
    """The result, which comes last, because it says that all is done."""
    if result["test"] is not None and stage.exp.data.classifies:
        run.save_tensors(EXAMPLES, _example(stage, state, result["choice"]["lr"]))
    run.save_result(result)


def run_folder(folder: Path, exp: Experiment) -> AbstractContextManager[RunDir]:
    """The folder of an experiment's run, to hold; an older one than some setting counts as having its default."""
    return RunDir.open(folder, to_json(exp), completed=lambda saved: to_json(from_json(saved)))


@contextmanager
def _opened(folder: Path, exp: Experiment, workers: Workers, device: torch.device) -> Iterator[RunLog]:
    """The lead's run folder. If that cannot be opened, it is an error on all workers: none would come to the others."""
    if not workers.lead:
        if problem := workers.told("", device):
            raise RunError(problem)
        yield Elsewhere()
        return
    with ExitStack() as stack:
        try:
            run = stack.enter_context(run_folder(folder, exp))
        except RunError as error:
            workers.told(str(error), device)
            raise
        workers.told("", device)
        yield run


def _of_lead(value: Any, workers: Workers, device: torch.device) -> Any:
    """The value that the lead has, if JSON can hold it."""
    return value if workers.count == 1 else json.loads(workers.told(json.dumps(value), device))


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


def _example(stage: Stage, state: TrainState, lr: float) -> dict[str, torch.Tensor]:
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


def environment(device: torch.device) -> dict[str, Any]:
    """What this result depends on besides the experiment."""
    return {
        "command": command(sys.argv),
        "version": version("eigen-reptile"),
        "commit": _commit(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "machine": platform.machine(),
        "device": str(device),
        "threads": torch.get_num_threads(),
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def command(words: Sequence[str]) -> str:
    """The command line, without the folders above a full path: they are one machine's own, and results are shared."""
    return " ".join(re.sub(r"(^|=)/.*/(?=.)", r"\1", word) for word in words)


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
