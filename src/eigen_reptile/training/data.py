"""The training data of each outer iteration: tasks and mini-batches, drawn by address."""

from collections.abc import Iterator
from typing import final

import torch
from torch import Tensor

from eigen_reptile.data.sampling import epoch_batches, sample_tasks
from eigen_reptile.noise import flip_draws
from eigen_reptile.runtime.rng import GeneratorPool
from eigen_reptile.tasks import Batches, Tasks, draw_batches
from eigen_reptile.training.setup import Setup

AHEAD_BYTES = 2**20
"""Memory for iterations that are drawn together; a single one on images needs more than that."""


@final
class TrainingData:
    """This worker's tasks and mini-batches; replicas with the same seed get the same."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._generators = GeneratorPool()

    def at(self, step: int) -> tuple[Tasks, Batches]:
        """The data of one iteration."""
        (data,) = self._draw(range(step, step + 1))
        return data

    def after(self, step: int) -> Iterator[tuple[Tasks, Batches]]:
        """The data of one iteration after the other; where it is small, that of many iterations is drawn together."""
        first = self.at(step)
        yield first
        ahead = max(1, AHEAD_BYTES // sum(part.nbytes for parts in first for part in parts))
        while True:
            yield from self._draw(range(step + 1, step + 1 + ahead))
            step += ahead

    def _draw(self, steps: range) -> Iterator[tuple[Tasks, Batches]]:
        """The data of several iterations, drawn as if they were further replicas."""
        setup, exp = self._setup, self._setup.exp
        task_rngs = self._generators.at(exp.seeds, "tasks", steps)
        batch_rngs = self._generators.at(exp.seeds, "batches", steps)
        bank, count, place = setup.banks.train, exp.meta.batch, (setup.device, exp.dtype)
        if exp.task.epochs:
            addresses = [(seed, step) for step in steps for seed in exp.seeds]
            tasks = epoch_batches(bank, exp.task.samples, count, addresses, task_rngs, *place)
        else:
            tasks = sample_tasks(bank, setup.training, count, task_rngs, *place)
        needs = exp.method.requirements
        batches = draw_batches(tasks, needs.batches_to_draw(exp.inner), exp.inner.batch, batch_rngs)
        if setup.flipper is not None:
            tasks, batches = flip_draws(tasks, batches, setup.flipper, batch_rngs, needs.queries)
        own = list(setup.workers.own_indices(count))
        if len(own) < count:
            tasks, batches = Tasks(*(part[:, own] for part in tasks)), Batches(*(part[:, own] for part in batches))
        copies = len(exp.meta.lr)

        def by_step(part: Tensor) -> Tensor:
            replicas = part.unflatten(0, (len(steps), len(exp.seeds)))
            return replicas if copies == 1 else torch.cat([replicas] * copies, dim=1)  # by step size, then by seed

        own_tasks, own_batches = (zip(*map(by_step, parts), strict=True) for parts in (tasks, batches))
        return zip(map(Tasks._make, own_tasks), map(Batches._make, own_batches), strict=True)
