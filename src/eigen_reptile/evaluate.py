"""How good an initialisation is: adapt it to held-out tasks and measure the error after so many steps."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from scipy import stats
from torch import Tensor

from eigen_reptile.data import Bank
from eigen_reptile.inner import InnerConfig, InnerState, adapt
from eigen_reptile.learner import Learner
from eigen_reptile.streams import Purpose, stream
from eigen_reptile.tasks import Batches, Tasks, draw_batches, sample_tasks

Split = Literal["validation", "test"]

LANE_TASKS_AT_ONCE = 2048
"""Networks adapted in one batched computation: bounds the memory that evaluation needs."""


@dataclass(frozen=True)
class EvalConfig:
    """Validation and test: fixed lists of tasks, the same for every method, seed and step size."""

    tasks: int = 200
    """Tasks on which a finished initialisation is judged: validation chooses, test reports."""
    monitor_tasks: int = 50
    """Validation tasks used while training, for the learning curve."""
    every: int = 1000
    """Outer iterations between two points of the learning curve."""
    shots: int = 10
    """Support samples of a task (K)."""
    after: tuple[int, ...] = (0, 8, 16, 24, 32)
    """Inner steps, each on all shots, after which the error is measured; the last decides."""
    seed: int = 0
    """Seed of the lists of tasks."""
    pictures: tuple[int, ...] = (1, 10_000, 15_000, 20_000, 30_000)
    """Outer iterations whose fitted curves on one fixed task are kept for the figure."""

    def __post_init__(self) -> None:
        for name in ("tasks", "monitor_tasks", "every", "shots"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")
        if not self.after or self.after[0] < 0 or any(a >= b for a, b in pairwise(self.after)):
            raise ValueError(f"after must hold rising numbers of steps from 0, not {self.after}")
        if not 0 <= self.seed < 2**63:
            raise ValueError(f"seed must be a whole number from 0 to 2**63 - 1, not {self.seed}")
        if any(step < 0 for step in self.pictures):
            raise ValueError(f"pictures must hold iterations from 0, not {self.pictures}")


class EvalResult(NamedTuple):
    """Squared errors of S initialisations on the same T tasks, after each of K numbers of steps."""

    error: Float[np.ndarray, "S T K"]

    def of_lanes(self) -> Float[np.ndarray, "S K"]:
        """Each lane's mean over the tasks."""
        mean: np.ndarray = self.error.mean(1)
        return mean


class Fit(NamedTuple):
    """Predictions on one task before and while adapting to it."""

    x: Float[np.ndarray, "q"]
    truth: Float[np.ndarray, "q"]
    support: Float[np.ndarray, "2 m"]
    curves: Float[np.ndarray, "S K q"]


def interval95(values: Sequence[float] | np.ndarray) -> tuple[float, float]:
    """Mean, and half the width of its 95 % confidence interval (Student's t); infinite for a single value."""
    array = np.asarray(values, dtype=np.float64)
    if array.size < 2:
        return float(array.mean()), float("inf")
    t = float(stats.t.ppf(0.975, array.size - 1))
    return float(array.mean()), t * float(array.std(ddof=1)) / float(np.sqrt(array.size))


def evaluate(
    learner: Learner,
    bank: Bank,
    theta: Float[Tensor, "S d"],
    memory: InnerState,
    inner: InnerConfig,
    config: EvalConfig,
    split: Split,
    tasks: int | None = None,
) -> EvalResult:
    """The errors of each initialisation on the first `tasks` (default: all) tasks of the split's fixed list."""
    count = tasks or config.tasks
    drawn, batches = _task_list(bank, config, split, count)
    at_once = max(1, LANE_TASKS_AT_ONCE // theta.shape[0])
    parts = []
    for start in range(0, count, at_once):
        some = slice(start, start + at_once)
        part = Tasks(*(tensor[:, some] for tensor in drawn))
        part_batches = Batches(*(tensor[:, some] for tensor in batches))
        predictions = _predictions(learner, theta, memory, part, part_batches, inner, config)
        parts.append((predictions - part.query_y[:, :, None]).square().mean((-1, -2)))
    return EvalResult(torch.cat(parts, dim=1).double().numpy())


def fit_one(
    learner: Learner,
    bank: Bank,
    theta: Float[Tensor, "S d"],
    memory: InnerState,
    inner: InnerConfig,
    config: EvalConfig,
) -> Fit:
    """The curves that each initialisation fits to one fixed task, for the figure."""
    task, batches = _task_list(bank, config, "picture", 1)
    curves = _predictions(learner, theta, memory, task, batches, inner, config)
    return Fit(
        x=task.query_x[0, 0, :, 0].numpy(),
        truth=task.query_y[0, 0, :, 0].numpy(),
        support=torch.stack([task.x[0, 0, :, 0], task.y[0, 0, :, 0]]).numpy(),
        curves=curves[:, 0, :, :, 0].numpy(),
    )


def _task_list(bank: Bank, config: EvalConfig, purpose: Purpose, count: int) -> tuple[Tasks, Batches]:
    """Each task from an address of its own, so that a longer list begins with the shorter one."""
    rngs = [stream(config.seed, purpose, number) for number in range(count)]
    tasks = sample_tasks(bank, config.shots, 1, rngs)
    batches = draw_batches(tasks, config.after[-1], config.shots, rngs)
    return Tasks(*(part.transpose(0, 1) for part in tasks)), Batches(*(part.transpose(0, 1) for part in batches))


@torch.no_grad()
def _predictions(
    learner: Learner,
    theta: Float[Tensor, "S d"],
    memory: InnerState,
    tasks: Tasks,
    batches: Batches,
    inner: InnerConfig,
    config: EvalConfig,
) -> Float[Tensor, "S T K q out"]:
    """What each adapted network says about the queries of each task, after each number of steps."""
    S, T = theta.shape[0], tasks.x.shape[1]
    x, _, query_x, _ = (part.expand(S, *part.shape[1:]) for part in tasks)
    every_lane = Batches(*(part.expand(S, *part.shape[1:]) for part in batches))
    state = (memory if inner.carry == "shared" else InnerState.empty(theta)).for_tasks(T)
    point = theta[:, None].expand(-1, T, -1)
    answers = []
    for done, wanted in pairwise((0, *config.after)):
        steps = Batches(*(part[:, :, done:wanted] for part in every_lane))
        point, state = adapt(learner, point, state, x, steps, inner)
        answers.append(learner.outputs(point, query_x))
    return torch.stack(answers, dim=2)
