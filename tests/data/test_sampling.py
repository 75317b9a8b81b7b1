"""Tasks and epochs are drawn from banks as tensors, independently for each replica."""

import numpy as np
import torch
from hypothesis import given, strategies as st

from eigen_reptile.data import ImageBank, Sine, TaskShape
from eigen_reptile.data.sampling import epoch_batches, epoch_indices, sample_tasks
from eigen_reptile.runtime.progress import no_progress
from eigen_reptile.runtime.rng import generator_at

SINE = Sine().load(no_progress).train


def rngs(seeds: range) -> list[np.random.Generator]:
    return [generator_at(seed, "tasks") for seed in seeds]


def shots(count: int) -> TaskShape:
    return TaskShape(way=1, shots=count, queries=1)


def test_a_replica_draws_what_it_would_draw_alone() -> None:
    together = sample_tasks(SINE, shots(10), 2, rngs(range(3)))
    alone = sample_tasks(SINE, shots(10), 2, rngs(range(1, 2)))
    for part, own in zip(together, alone, strict=True):
        assert torch.equal(part[1], own[0])


def test_images_stay_bytes_and_labels_stay_integers() -> None:
    pixels = np.arange(256, dtype=np.uint8).reshape(4, 4, 4, 4)
    bank = ImageBank(pixels, ["first", "second"], [2, 2])
    tasks = sample_tasks(bank, TaskShape(way=2, shots=1, queries=1), 2, rngs(range(3)))
    assert tasks.x.shape == tasks.query_x.shape == (3, 2, 2, 4, 4, 4)
    assert tasks.y.dtype == tasks.query_y.dtype == torch.int64
    for task in range(2):
        # A task contains all four images, and therefore every byte value once.
        found = torch.cat([tasks.x[1, task], tasks.query_x[1, task]]).flatten().sort().values
        assert torch.equal(found, torch.arange(256, dtype=torch.uint8))


@given(st.integers(1, 40), st.integers(1, 30), st.integers(0, 5))
def test_each_epoch_visits_every_index_once(total: int, size: int, seed: int) -> None:
    """This holds for every batch size, and each epoch has another order."""
    batches = -(-3 * total // size)
    order = np.concatenate([epoch_indices(total, seed, number * size, size) for number in range(batches)])[: 3 * total]
    for epoch in order.reshape(3, total):
        assert sorted(epoch) == list(range(total))
    if total > 20:
        assert len({epoch.tobytes() for epoch in order.reshape(3, total)}) == 3


def test_epoch_batches_contain_all_images_with_their_labels() -> None:
    pixels = np.arange(6, dtype=np.uint8)[:, None, None, None] * np.ones((1, 2, 3, 1), dtype=np.uint8)
    bank = ImageBank(pixels, ["a", "b", "c"], [1, 3, 2])
    drawn = [epoch_batches(bank, 2, 1, [(seed, step) for seed in (0, 1)], rngs(range(2))) for step in range(3)]
    x, y = (torch.cat(parts, dim=2)[:, 0] for parts in zip(*((tasks.x, tasks.y) for tasks in drawn), strict=True))
    for replica in range(2):
        assert sorted(x[replica, :, 0, 0, 0].tolist()) == list(range(6))
        assert y[replica].tolist() == [[0, 1, 1, 1, 2, 2][image] for image in x[replica, :, 0, 0, 0]]
    assert not torch.equal(x[0], x[1])
    tasks = drawn[0]
    assert tasks.x.shape == (2, 1, 2, 1, 2, 3)
    assert tasks.query_x.shape == (2, 1, 0, 1, 2, 3)
    assert tasks.classes.tolist() == [[[0, 1, 2]]] * 2
    assert tasks.is_clean.all()
