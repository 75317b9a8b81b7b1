"""Evaluation of an initialisation: adapt it to held-out tasks and score its predictions."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import prod
from typing import NamedTuple, final

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.special import stdtrit
from torch import Tensor

from eigen_reptile.data import Bank, TaskShape
from eigen_reptile.data.sampling import sample_tasks
from eigen_reptile.errors import ConfigError
from eigen_reptile.inner import InnerConfig, InnerState
from eigen_reptile.methods import Adaptation, Method
from eigen_reptile.nn import Network
from eigen_reptile.noise import LARGEST_RATE, SupportNoise, with_support_noise
from eigen_reptile.runtime.progress import ReportProgress
from eigen_reptile.runtime.rng import Purpose, generator_at
from eigen_reptile.runtime.threads import map_in_threads
from eigen_reptile.tasks import Batches, Tasks, draw_batches
from eigen_reptile.training.query_batches import MODES, PREDICT, Mode

BYTES_AT_ONCE = 2**28
"""Bound on the memory of batched evaluation."""


@final
@dataclass(frozen=True)
class EvalConfig:
    """Validation and test, on fixed lists of tasks that are the same for every method, seed and step size."""

    tasks: int = 200
    """Tasks in the final validation, which chooses the outer step size, and in the test."""
    monitor_tasks: int = 50
    """Validation tasks used while training, for the learning curve and the best checkpoint."""
    every: int = 1000
    """Outer iterations between two points of the learning curve."""
    shots: tuple[int, ...] = (10,)
    """Support samples of each class (K). Every number is tested; validation uses the first."""
    way: int | None = None
    """Classes in a validation or test task; None: as many as in training (`task.way`). With another number, methods
    that adapt a classifier begin with a freshly initialised last layer."""
    queries: int = 15
    """Queries of each class; fewer where the classes are too small. The queries of a regression task are its grid."""
    inner_steps: tuple[int, ...] = (0, 8, 16, 24, 32)
    """Numbers of inner steps after which the error is measured. The last one decides; accuracy is measured only
    there."""
    batch: int | None = 15
    """Samples in the mini-batch of each inner step, or the whole support if that is smaller; None: always the whole
    support."""
    test: bool = True
    """Whether test tasks are evaluated at the end; switch it off while hyper-parameters are being chosen."""
    noisy: bool = False
    """Whether the support of validation and test tasks has the wrong labels of training too (`noise`). Their queries
    are always clean."""
    support_noise: SupportNoise = "none"
    """Wrong labels in the support of validation and test tasks, the same number for each class. symmetric: spread over
    the other classes of the task; paired: all from one other class; outlier: images of classes outside of the task.
    Queries are always clean, and every method gets the same wrong labels."""
    support_rate: float = 0.0
    """Fraction of wrong labels among the shots of each class, from 0 to 0.6, rounded to whole labels."""
    seed: int = 0
    """Seed of the lists of tasks."""
    snapshot_steps: tuple[int, ...] = (1, 10_000, 15_000, 20_000, 30_000)
    """Outer iterations at which the fitted curves on one fixed task are stored for the figure (regression only)."""

    def __post_init__(self) -> None:
        for name in ("tasks", "monitor_tasks", "every", "queries", "batch"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigError(f"`evaluation.{name}` must be at least 1, not {value}")
        if self.way is not None and self.way < 2:
            raise ConfigError(f"`evaluation.way` must be at least 2, not {self.way}")
        if not self.shots or any(shots < 1 for shots in self.shots) or len(set(self.shots)) < len(self.shots):
            raise ConfigError(f"`evaluation.shots` must hold different numbers of at least 1, not {self.shots}")
        steps = self.inner_steps
        if not steps or steps[0] < 0 or any(a >= b for a, b in pairwise(steps)):
            raise ConfigError(f"`evaluation.inner_steps` must hold increasing numbers from 0 on, not {steps}")
        if not 0 <= self.support_rate <= LARGEST_RATE:
            raise ConfigError(f"`evaluation.support_rate` must be from 0 to {LARGEST_RATE}, not {self.support_rate}")
        if self.support_noise == "none" and self.support_rate:
            raise ConfigError(
                "`evaluation.support_rate` has no effect without a kind of noise: set `evaluation.support_noise` to "
                "symmetric, paired or outlier"
            )
        if self.support_noise != "none" and self.noisy:
            raise ConfigError(
                "`evaluation.noisy` and `evaluation.support_noise` both put wrong labels into the support: use one"
            )
        if not 0 <= self.seed < 2**63:
            raise ConfigError(f"`evaluation.seed` must be a whole number from 0 to 2**63 - 1, not {self.seed}")
        if any(step < 0 for step in self.snapshot_steps):
            raise ConfigError(f"`evaluation.snapshot_steps` must hold iterations from 0 on, not {self.snapshot_steps}")

    def authors_protocol(self) -> "EvalConfig":
        """The protocol of the paper's authors: 10,000 tasks with one query per class, 50 steps of 5 or 15 samples."""
        return replace(self, tasks=10_000, queries=1, inner_steps=(50,), batch=15)

    def field_protocol(self) -> "EvalConfig":
        """The usual protocol of the field: 600 tasks with 15 queries per class."""
        return replace(self, tasks=600, queries=15)


class Initialisation(NamedTuple):
    """S initialisations, and how they are adapted to a task."""

    theta: Float[Tensor, "S D"]
    inner_state: InnerState
    inner: InnerConfig
    method: Method


class Scores(NamedTuple):
    """Scores of S initialisations on the same T tasks, by K measures, the last of which decides."""

    columns: tuple[str, ...]
    values: Float[np.ndarray, "S T K"]
    """Not finite for a task that failed, because the predictions for its queries were not."""

    @property
    def counted(self) -> Float[np.ndarray, "S T K"]:
        """The scores that enter means. An error that is not finite stays so; see `failed_as_wrong` for accuracies."""
        return failed_as_wrong(self.values) if set(self.columns) <= set(MODES) else self.values

    def per_replica(self) -> Float[np.ndarray, "S K"]:
        """Means over the tasks."""
        mean: np.ndarray = self.counted.mean(1)
        return mean


def failed_as_wrong(accuracies: Float[np.ndarray, "S T *K"]) -> Float[np.ndarray, "S T *K"]:
    """Accuracies in which a failed task counts as 0, like one whose queries are all classified wrongly.

    If all tasks of an initialisation failed, it has no accuracy, and they are left as they are.
    """
    failed = ~np.isfinite(accuracies)
    return np.where(failed & ~failed.all(1, keepdims=True), 0.0, accuracies) if failed.any() else accuracies


def interval95(values: Sequence[float] | np.ndarray) -> tuple[float, float]:
    """Mean, and half the width of its 95 % confidence interval (Student's t); infinite for a single value."""
    array = np.asarray(values, dtype=np.float64)
    if array.size < 2:
        return float(array.mean()), float("inf")
    t = float(stdtrit(array.size - 1, 0.975))  # the same as in scipy.stats, which takes a second to import
    return float(array.mean()), t * float(array.std(ddof=1)) / float(np.sqrt(array.size))


def evaluate(
    network: Network,
    bank: Bank,
    initialisation: Initialisation,
    config: EvalConfig,
    purpose: Purpose,
    task: TaskShape,
    numbers: Sequence[int],
    modes: Sequence[Mode],
    report: ReportProgress,
) -> Scores:
    """Scores on the tasks with these numbers in a fixed list.

    With modes, the accuracy in each of them after the last of the numbers of inner steps; without modes, the squared
    error after each of the numbers of inner steps.
    """
    columns, at_once = measures(config, modes), tasks_at_once(network, bank, initialisation, task)
    pieces = [numbers[first : first + at_once] for first in range(0, len(numbers), at_once)]
    parts = [np.empty((len(initialisation.theta), 0, len(columns)))]
    for part in evaluate_pieces(network, bank, initialisation, config, purpose, task, pieces, modes):
        parts.append(part)
        report(sum(part.shape[1] for part in parts), {})
    return Scores(columns, np.concatenate(parts, axis=1))


def measures(config: EvalConfig, modes: Sequence[Mode]) -> tuple[str, ...]:
    """The names of the K measures."""
    return tuple(modes) if modes else tuple(f"{steps} steps" for steps in config.inner_steps)


def tasks_at_once(network: Network, bank: Bank, initialisation: Initialisation, task: TaskShape) -> int:
    """How many tasks are evaluated in one batch. Their scores can depend on it in the last bits."""
    return max(1, BYTES_AT_ONCE // _bytes_each(bank, initialisation, task)) if network.batched else 1


@torch.no_grad()
def evaluate_pieces(
    network: Network,
    bank: Bank,
    initialisation: Initialisation,
    config: EvalConfig,
    purpose: Purpose,
    task: TaskShape,
    pieces: Sequence[Sequence[int]],
    modes: Sequence[Mode],
) -> Iterator[Float[np.ndarray, "S T K"]]:
    """The scores of `evaluate`, for one piece of a list of tasks after the other. A piece may be empty."""

    def scores_of(numbers: Sequence[int]) -> np.ndarray:
        if not numbers:
            return np.empty((len(initialisation.theta), 0, len(measures(config, modes))))
        tasks, batches = draw_tasks(bank, initialisation, config, purpose, task, numbers)
        if modes:
            theta = next(adapt_in_stages(network, initialisation, tasks, batches, config.inner_steps[-1:]))
            predictions = [PREDICT[mode](network, initialisation.method, theta, tasks) for mode in modes]
            values = torch.stack([_accuracy(logits, tasks.query_y) for logits in predictions], dim=2)
        else:
            curves = predict_curves(network, initialisation, tasks, batches, config)
            values = (curves - tasks.query_y[:, :, None]).square().mean((-1, -2))
        found: np.ndarray = values.cpu().double().numpy()
        return found

    largest = max((len(piece) for piece in pieces), default=0)
    size = largest * _bytes_each(bank, initialisation, task)
    yield from map_in_threads(scores_of, [(piece,) for piece in pieces], size, initialisation.theta.device)


def _bytes_each(bank: Bank, initialisation: Initialisation, task: TaskShape) -> int:
    theta = initialisation.theta
    inputs = task.way * (task.shots + task.queries) * prod(bank.shape)
    return 4 * (len(theta) * inputs + theta.nbytes)


def _accuracy(logits: Float[Tensor, "S T q way"], y: Int[Tensor, "S T q"]) -> Float[Tensor, "S T"]:
    """The accuracy on each task; NaN if any of its logits is not finite, because they have no largest one."""
    accuracy = (logits.argmax(-1) == y).cpu().double().mean(-1)
    return accuracy.masked_fill(~logits.isfinite().all(-1).all(-1).cpu(), torch.nan)


def draw_tasks(
    bank: Bank,
    initialisation: Initialisation,
    config: EvalConfig,
    purpose: Purpose,
    task: TaskShape,
    numbers: Sequence[int],
) -> tuple[Tasks, Batches]:
    """The tasks with these numbers in a fixed list, repeated for all replicas.

    Each task has its own address, so a longer list begins with the shorter one.
    """
    theta = initialisation.theta
    rngs = [generator_at(config.seed, purpose, number) for number in numbers]
    tasks = sample_tasks(bank, task, 1, rngs, theta.device, theta.dtype)
    noise_rngs = [generator_at(config.seed, "support", number) for number in numbers]
    tasks = with_support_noise(tasks, bank, task, config.support_noise, config.support_rate, noise_rngs)
    size = None if config.batch is None else min(config.batch, tasks.x.shape[2])
    batches = draw_batches(tasks, config.inner_steps[-1], size, rngs)
    replicas = [
        [part.transpose(0, 1).expand(len(theta), *part.shape[:1], *part.shape[2:]) for part in parts]
        for parts in (tasks, batches)
    ]
    return Tasks(*replicas[0]), Batches(*replicas[1])


def adapt_in_stages(
    network: Network, initialisation: Initialisation, tasks: Tasks, batches: Batches, inner_steps: Sequence[int]
) -> Iterator[Float[Tensor, "S T D"]]:
    """Each initialisation adapted to each task, after each of the numbers of inner steps."""
    theta, state, inner, method = initialisation
    T = tasks.x.shape[1]
    state = state.carried(inner).for_tasks(T)
    theta = theta[:, None].expand(-1, T, -1)
    for done, wanted in pairwise((0, *inner_steps)):
        steps = Batches(*(part[:, :, done:wanted] for part in batches))
        theta, state = method.adapt(Adaptation(network, theta, state, tasks, steps, inner))
        yield theta


def predict_curves(
    network: Network, initialisation: Initialisation, tasks: Tasks, batches: Batches, config: EvalConfig
) -> Float[Tensor, "S T K q out"]:
    """Predictions of each network for the queries, after each of the numbers of inner steps."""
    adapted = adapt_in_stages(network, initialisation, tasks, batches, config.inner_steps)
    return torch.stack(
        [initialisation.method.predict(network, theta, tasks, tasks.query_x) for theta in adapted], dim=2
    )
