"""How good an initialisation is: adapt it to held-out tasks and measure it there."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import prod
from typing import Literal, NamedTuple, get_args

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.special import stdtrit
from torch import Tensor

from eigen_reptile.data import Bank, TaskShape
from eigen_reptile.inner import InnerConfig, InnerState
from eigen_reptile.learner import Learner
from eigen_reptile.methods import Adaptation, Method
from eigen_reptile.progress import Report
from eigen_reptile.streams import Purpose, stream
from eigen_reptile.tasks import Batches, Tasks, draw_batches, sample_tasks
from eigen_reptile.threads import side_by_side

Mode = Literal["inductive", "transductive"]
MODES: tuple[Mode, ...] = get_args(Mode)

BYTES_AT_ONCE = 2**28
"""Bounds the memory that batched evaluation needs."""


@dataclass(frozen=True)
class EvalConfig:
    """Validation and test: fixed lists of tasks, the same for every method, seed and step size."""

    tasks: int = 200
    """Tasks on which a finished initialisation is judged: validation chooses, test reports."""
    monitor_tasks: int = 50
    """Validation tasks used while training, for the learning curve and the best checkpoint."""
    every: int = 1000
    """Outer iterations between two points of the learning curve."""
    shots: tuple[int, ...] = (10,)
    """Support samples of each class (K). Each number is tested; validation uses the first."""
    way: int | None = None
    """Classes in a task of validation and test, for methods that can be trained on more of them (--task.way) than they
    are tested on; as many as in training if it is not said."""
    queries: int = 15
    """Queries of each class; fewer where the classes are too small. A regression task asks about its whole grid."""
    after: tuple[int, ...] = (0, 8, 16, 24, 32)
    """Inner steps after which the error is measured; the last decides, and only there accuracy is measured."""
    batch: int = 15
    """Samples in each of these steps' mini-batches; a smaller support is taken whole."""
    test: bool = True
    """Whether the test tasks are touched in the end; not while rates are still being chosen."""
    noisy: bool = False
    """Whether the support of validation and test tasks has wrong labels too; queries never do."""
    seed: int = 0
    """Seed of the lists of tasks."""
    pictures: tuple[int, ...] = (1, 10_000, 15_000, 20_000, 30_000)
    """Outer iterations whose fitted curves on one fixed task are kept for the figure (regression only)."""

    def __post_init__(self) -> None:
        for name in ("tasks", "monitor_tasks", "every", "queries", "batch"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")
        if self.way is not None and self.way < 2:
            raise ValueError(f"way must be at least 2, not {self.way}: there must be classes to tell apart")
        if not self.shots or any(shots < 1 for shots in self.shots) or len(set(self.shots)) < len(self.shots):
            raise ValueError(f"shots must hold different numbers of at least 1, not {self.shots}")
        if not self.after or self.after[0] < 0 or any(a >= b for a, b in pairwise(self.after)):
            raise ValueError(f"after must hold rising numbers of steps from 0, not {self.after}")
        if not 0 <= self.seed < 2**63:
            raise ValueError(f"seed must be a whole number from 0 to 2**63 - 1, not {self.seed}")
        if any(step < 0 for step in self.pictures):
            raise ValueError(f"pictures must hold iterations from 0, not {self.pictures}")

    def by_authors(self) -> "EvalConfig":
        """The paper's authors' protocol: 10,000 tasks of one query a class, 50 steps of 5 or 15 samples."""
        return replace(self, tasks=10_000, queries=1, after=(50,), batch=15)

    def by_field(self) -> "EvalConfig":
        """The protocol usual in the field: 600 tasks of 15 queries a class."""
        return replace(self, tasks=600, queries=15)


class Start(NamedTuple):
    """What evaluation starts from: S initialisations, and how they are adapted."""

    theta: Float[Tensor, "S D"]
    memory: InnerState
    inner: InnerConfig
    method: Method
    """What adapts them, and answers."""


class Scores(NamedTuple):
    """What S initialisations reach on the same T tasks, measured in K ways of which the last decides."""

    columns: tuple[str, ...]
    values: Float[np.ndarray, "S T K"]

    def of_lanes(self) -> Float[np.ndarray, "S K"]:
        """Each lane's mean over the tasks."""
        mean: np.ndarray = self.values.mean(1)
        return mean


class Fit(NamedTuple):
    """Predictions on one task before and while adapting to it."""

    x: Float[np.ndarray, "q"]
    truth: Float[np.ndarray, "q"]
    support: Float[np.ndarray, "2 m"]
    curves: Float[np.ndarray, "S K q"]


class Example(NamedTuple):
    """One task of pictures, and which class each initialisation gives to each query."""

    task: Tasks
    predicted: Int[np.ndarray, "S q"]


def interval95(values: Sequence[float] | np.ndarray) -> tuple[float, float]:
    """Mean, and half the width of its 95 % confidence interval (Student's t); infinite for a single value."""
    array = np.asarray(values, dtype=np.float64)
    if array.size < 2:
        return float(array.mean()), float("inf")
    t = float(stdtrit(array.size - 1, 0.975))  # scipy.stats says the same, but takes a second to import
    return float(array.mean()), t * float(array.std(ddof=1)) / float(np.sqrt(array.size))


@torch.no_grad()
def evaluate(
    learner: Learner,
    bank: Bank,
    start: Start,
    config: EvalConfig,
    purpose: Purpose,
    task: TaskShape,
    numbers: Sequence[int],
    modes: Sequence[Mode],
    report: Report,
) -> Scores:
    """Scores on the tasks with these numbers in a fixed list.

    In each of the modes, the share of right answers after the last of the numbers of steps; without modes, the
    squared error after each of the numbers of steps.
    """
    columns = tuple(modes) if modes else tuple(f"{steps} steps" for steps in config.after)

    def scored(numbers: Sequence[int]) -> np.ndarray:
        tasks, batches = _tasks(bank, start, config, purpose, task, numbers)
        if modes:
            point = next(_adapted(learner, start, tasks, batches, config.after[-1:]))
            said = [_ANSWERS[mode](learner, start.method, point, tasks) for mode in modes]
            right = torch.stack([answer.argmax(-1) == tasks.query_y for answer in said], dim=2)
            values = right.cpu().double().mean(-1)
        else:
            predictions = _predictions(learner, start, tasks, batches, config)
            values = (predictions - tasks.query_y[:, :, None]).square().mean((-1, -2))
        found: np.ndarray = values.cpu().double().numpy()
        return found

    inputs = task.way * (task.shots + task.queries) * prod(bank.shape)
    size = 4 * (len(start.theta) * inputs + start.theta.nbytes)
    at_once = max(1, BYTES_AT_ONCE // size) if learner.batched else 1
    pieces = [(numbers[first : first + at_once],) for first in range(0, len(numbers), at_once)]
    parts = [np.empty((len(start.theta), 0, len(columns)))]
    for part in side_by_side(scored, pieces, at_once * size, start.theta.device):
        parts.append(part)
        report(sum(part.shape[1] for part in parts), {})
    return Scores(columns, np.concatenate(parts, axis=1))


@torch.no_grad()
def fit_one(learner: Learner, bank: Bank, start: Start, config: EvalConfig, task: TaskShape) -> Fit:
    """The curves that each initialisation fits to one fixed task, for the figure."""
    tasks, batches = _tasks(bank, start, config, "picture", task, [0])
    curves = _predictions(learner, start, tasks, batches, config)
    return Fit(
        x=tasks.query_x[0, 0, :, 0].cpu().numpy(),
        truth=tasks.query_y[0, 0, :, 0].cpu().numpy(),
        support=torch.stack([tasks.x[0, 0, :, 0], tasks.y[0, 0, :, 0]]).cpu().numpy(),
        curves=curves[:, 0, :, :, 0].cpu().numpy(),
    )


@torch.no_grad()
def example(learner: Learner, bank: Bank, start: Start, config: EvalConfig, task: TaskShape) -> Example:
    """One fixed task with the predictions of each initialisation, to be looked at."""
    tasks, batches = _tasks(bank, start, config, "picture", task, [0])
    point = next(_adapted(learner, start, tasks, batches, config.after[-1:]))
    predicted = _transductive(learner, start.method, point, tasks).argmax(-1)[:, 0]
    return Example(Tasks(*(part[:1] for part in tasks)), predicted.cpu().numpy())


def _tasks(
    bank: Bank, start: Start, config: EvalConfig, purpose: Purpose, task: TaskShape, numbers: Sequence[int]
) -> tuple[Tasks, Batches]:
    """The tasks with these numbers in a fixed list, for all lanes.

    Each task has an address of its own, so that a longer list begins with the shorter one.
    """
    S = len(start.theta)
    rngs = [stream(config.seed, purpose, number) for number in numbers]
    tasks = sample_tasks(bank, task, 1, rngs, start.theta.device, start.theta.dtype)
    batches = draw_batches(tasks, config.after[-1], min(config.batch, tasks.x.shape[2]), rngs)
    lanes = [
        [part.transpose(0, 1).expand(S, *part.shape[:1], *part.shape[2:]) for part in parts]
        for parts in (tasks, batches)
    ]
    return Tasks(*lanes[0]), Batches(*lanes[1])


def _adapted(
    learner: Learner, start: Start, tasks: Tasks, batches: Batches, after: Sequence[int]
) -> Iterator[Float[Tensor, "S T D"]]:
    """Each initialisation adapted to each task, after each of the numbers of steps."""
    T = tasks.x.shape[1]
    memory = start.memory.carried(start.inner).for_tasks(T)
    point = start.theta[:, None].expand(-1, T, -1)
    for done, wanted in pairwise((0, *after)):
        steps = Batches(*(part[:, :, done:wanted] for part in batches))
        point, memory = start.method.adapted(Adaptation(learner, point, memory, tasks, steps, start.inner))
        yield point


def _predictions(
    learner: Learner, start: Start, tasks: Tasks, batches: Batches, config: EvalConfig
) -> Float[Tensor, "S T K q out"]:
    """What each network says about the queries, after each of the numbers of steps."""
    points = _adapted(learner, start, tasks, batches, config.after)
    return torch.stack([start.method.answers(learner, point, tasks, tasks.query_x) for point in points], dim=2)


def _transductive(
    learner: Learner, method: Method, point: Float[Tensor, "S T D"], tasks: Tasks
) -> Float[Tensor, "S T q way"]:
    """All queries of a task in one batch, whose statistics batch-norm then uses."""
    return method.answers(learner, point, tasks, tasks.query_x)


def _inductive(
    learner: Learner, method: Method, point: Float[Tensor, "S T D"], tasks: Tasks
) -> Float[Tensor, "S T q way"]:
    """Each query in a batch with the support, so that no query helps another."""
    queries = tasks.query_x.unsqueeze(3).unbind(2)
    batches = queries if method.sees_support else (torch.cat([tasks.x, one], dim=2) for one in queries)
    return torch.stack([method.answers(learner, point, tasks, batch)[:, :, -1] for batch in batches], dim=2)


_ANSWERS = {"inductive": _inductive, "transductive": _transductive}
