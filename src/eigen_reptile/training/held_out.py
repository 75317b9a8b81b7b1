"""Validation and test: scores on held-out tasks, shared between the workers.

With a run folder, the scores of each task are stored as soon as they are known, and an evaluation that was interrupted
continues after the last one.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from eigen_reptile.data import Bank, TaskShape
from eigen_reptile.runtime.distributed import Workers
from eigen_reptile.runtime.interruption import interrupted_at
from eigen_reptile.runtime.progress import ReportProgress
from eigen_reptile.runtime.rng import Purpose
from eigen_reptile.runtime.run_folder import RunLog
from eigen_reptile.training.evaluate import (
    EvalConfig,
    Initialisation,
    Scores,
    draw_tasks,
    evaluate_pieces,
    measures,
    tasks_at_once,
)
from eigen_reptile.training.query_batches import MODES, Mode
from eigen_reptile.training.setup import Setup


class TaskList(NamedTuple):
    """The first `total` tasks of a fixed list."""

    bank: Bank
    purpose: Purpose
    shape: TaskShape
    total: int

    @property
    def name(self) -> str:
        return f"{self.purpose}-{self.shape.shots}-shot"


def validate(
    setup: Setup, initialisation: Initialisation, tasks: int, report: ReportProgress, log: RunLog | None = None
) -> Scores:
    """Scores on the first tasks of the validation list, by the decisive measure."""
    modes = MODES[-1:] if setup.exp.data.is_classification else ()
    wanted = TaskList(setup.banks.validation, "validation", setup.validation, tasks)
    return _evaluate(setup, initialisation, wanted, modes, report, log)


def evaluate_test(
    setup: Setup,
    initialisation: Initialisation,
    shape: TaskShape,
    report: ReportProgress,
    log: RunLog | None = None,
) -> Scores:
    """Scores on the test list, by every measure."""
    modes = MODES if setup.exp.data.is_classification else ()
    wanted = TaskList(setup.banks.test, "test", shape, setup.exp.evaluation.tasks)
    return _evaluate(setup, initialisation, wanted, modes, report, log)


def _evaluate(
    setup: Setup,
    initialisation: Initialisation,
    tasks: TaskList,
    modes: Sequence[Mode],
    report: ReportProgress,
    log: RunLog | None,
) -> Scores:
    """Scores on a list of tasks, in rounds to which every worker contributes the scores of its own tasks."""
    workers, config, network = setup.workers, setup.exp.evaluation, setup.tested
    columns = measures(config, modes)
    form = (len(initialisation.theta), len(columns))
    each = tasks_at_once(network, tasks.bank, initialisation, tasks.shape)
    at_once = workers.count * each
    # Scores can depend in their last bits on the device, and on the tasks that are computed together.
    about = {"tasks_at_once": each, "workers": workers.count, "device": setup.device.type}
    about |= _description(initialisation, config, tasks, modes)
    lines = log.load_scores(tasks.name, about) if log else []
    stored = _from_lead(_as_scores(lines, form), workers, setup.device)
    # Therefore only whole rounds are used.
    done = min(stored.shape[1], tasks.total)
    done -= done % at_once if done < tasks.total else 0
    rounds = [range(first, min(first + at_once, tasks.total)) for first in range(done, tasks.total, at_once)]
    own = [numbers[workers.rank :: workers.count] for numbers in rounds]
    pieces = evaluate_pieces(network, tasks.bank, initialisation, config, tasks.purpose, tasks.shape, own, modes)
    parts = [stored[:, :done]]
    if done:
        report(done, {})
    try:
        for numbers, piece in zip(rounds, pieces, strict=True):
            part = np.zeros((form[0], len(numbers), form[1]))
            part[:, workers.rank :: workers.count] = piece
            part = _sum_over(workers, part, setup.device)
            if log:
                log.add_scores(tasks.name, _as_lines(numbers, part))
            parts.append(part)
            done = numbers.stop
            report(done, {})
    except KeyboardInterrupt as interruption:
        raise interrupted_at(f"after {done} of {tasks.total} {tasks.purpose} tasks", interruption) from interruption
    return Scores(columns, np.concatenate(parts, axis=1))


def _description(
    initialisation: Initialisation, config: EvalConfig, tasks: TaskList, modes: Sequence[Mode]
) -> dict[str, Any]:
    """The parameters and tasks that are evaluated, and how, apart from the experiment of the run folder."""
    first, batches = draw_tasks(tasks.bank, initialisation, config, tasks.purpose, tasks.shape, [0])
    return {
        "initialisation": _digest((initialisation.theta, *initialisation.inner_state)),
        "evaluation": asdict(config),
        "tasks": tasks.shape._asdict() | {"purpose": tasks.purpose, "first": _digest((*first, *batches))},
        "modes": list(modes),
    }


def _digest(tensors: Iterable[Tensor]) -> str:
    found = hashlib.sha256()
    for tensor in tensors:
        found.update(tensor.cpu().contiguous().numpy().tobytes())
    return found.hexdigest()


def _as_lines(numbers: Sequence[int], scores: Float[np.ndarray, "S T K"]) -> list[dict[str, Any]]:
    """One line for each task; None for a score that is not finite, which JSON cannot represent."""
    values = scores.astype(object)
    values[~np.isfinite(scores)] = None
    by_task = values.swapaxes(0, 1).tolist()
    return [{"task": number, "scores": value} for number, value in zip(numbers, by_task, strict=True)]


def _as_scores(lines: Sequence[Any], form: tuple[int, int]) -> Float[np.ndarray, "S T K"]:
    """The scores in these lines, up to the first that `_as_lines` would not have written for its task."""
    values = []
    for number, line in enumerate(lines):
        try:
            scores = np.array(line["scores"], dtype=float)
            if line["task"] != number or scores.shape != form:
                break
        except (TypeError, ValueError, KeyError, OverflowError):
            break
        values.append(scores)
    return np.stack(values, axis=1) if values else np.empty((form[0], 0, form[1]))


def _from_lead(scores: np.ndarray, workers: Workers, device: torch.device) -> np.ndarray:
    """The lead's scores, which it has read from the run folder, on all workers."""
    if workers.count == 1:
        return scores
    (count,) = workers.broadcast([torch.tensor(scores.shape[1], device=device)])
    values = torch.zeros((scores.shape[0], int(count), scores.shape[2]), dtype=torch.float64)
    values[:, : scores.shape[1]] = torch.from_numpy(scores)
    (values,) = workers.broadcast([values.to(device)])
    return values.cpu().numpy()


def _sum_over(workers: Workers, scores: np.ndarray, device: torch.device) -> np.ndarray:
    if workers.count == 1:
        return scores
    (total,) = workers.all_reduce([torch.from_numpy(scores).to(device)])
    return total.cpu().numpy()
