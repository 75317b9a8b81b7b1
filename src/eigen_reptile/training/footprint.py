"""The least memory that an experiment takes, known before anything of that size is allocated."""

from collections.abc import Mapping, Sequence
from math import prod

from eigen_reptile.data import TaskShape
from eigen_reptile.methods.trajectory.trajectory_method import TrajectoryMethod
from eigen_reptile.runtime.memory import check_memory
from eigen_reptile.training.config import Experiment
from eigen_reptile.training.query_batches import MODES

INDEX = 8
"""Bytes of an index, a label or a score."""
TASK = 100
"""Bytes that every evaluation task takes besides its scores."""


def check_footprint(phase: str, parts: Mapping[str, int]) -> None:
    """RunError if these parts need more memory than there is. Activations are not among them."""
    largest = max(parts, key=lambda part: parts[part])
    check_memory(sum(parts.values()), phase, f"most of it is for {largest}")


def training_bytes(exp: Experiment, d: int, sample: tuple[int, ...], task: TaskShape) -> dict[str, int]:
    """Bytes of the largest tensors of an outer iteration, by what they are and which settings make them smaller."""
    tasks, replicas = len(exp.seeds) * exp.meta.batch, len(exp.replicas)
    drawn = exp.method.requirements.batches_to_draw(exp.inner) * (exp.inner.batch or task.way * task.shots)
    points = exp.inner.steps + 1 if isinstance(exp.method, TrajectoryMethod) else 1
    return {
        "the parameters: use a smaller network or fewer `seeds`": _parameter_bytes(exp, d),
        "the tasks: use a smaller `meta.batch`, `task.shots` or `task.queries`": tasks * _task_bytes(exp, sample, task),
        "the mini-batches: use a smaller `meta.batch`, `inner.steps` or `inner.batch`": tasks * drawn * INDEX
        + len(exp.seeds) * drawn * _sample_bytes(exp, sample),
        "the inner loop: use smaller `inner.steps` or a smaller network": replicas * points * d * exp.dtype.itemsize,
    }


def evaluation_bytes(exp: Experiment, d: int, sample: tuple[int, ...], tasks: Sequence[TaskShape]) -> dict[str, int]:
    """Bytes of the largest tensors of validation and test, by what they are and which settings make them smaller."""
    config = exp.evaluation
    measures = len(MODES) if exp.data.is_classification else len(config.inner_steps)
    batch = max(min(config.batch or task.way * task.shots, task.way * task.shots) for task in tasks)
    scores = config.tasks * (len(exp.replicas) * measures * INDEX + TASK)
    samples = max(_task_bytes(exp, sample, task) for task in tasks)
    drawn = config.inner_steps[-1] * batch * (INDEX + _sample_bytes(exp, sample))
    return {
        "the parameters: use a smaller network or fewer `seeds`": _parameter_bytes(exp, d),
        "the scores: use fewer `evaluation.tasks`": scores,
        "a task: use smaller `evaluation.shots` or `evaluation.queries`": samples,
        "the mini-batches: use smaller `evaluation.inner_steps` or `evaluation.batch`": drawn,
    }


def _parameter_bytes(exp: Experiment, d: int) -> int:
    """Bytes of the parameters, and of what is as large: the inner optimiser's state, a gradient and an update."""
    return 4 * len(exp.replicas) * d * exp.dtype.itemsize


def _task_bytes(exp: Experiment, sample: tuple[int, ...], task: TaskShape) -> int:
    return task.way * (task.shots + task.queries) * _sample_bytes(exp, sample)


def _sample_bytes(exp: Experiment, sample: tuple[int, ...]) -> int:
    """Bytes of a sample and its label. Images stay bytes until the network takes them."""
    return prod(sample) * (1 if exp.data.is_classification else exp.dtype.itemsize) + INDEX
