"""The mini-batches that the inner loop takes from the support of a task, and what a training task may consist of."""

import numpy as np
import pytest
import torch

from eigen_reptile.data import ImageBank, Sine, TaskShape
from eigen_reptile.data.sampling import sample_tasks
from eigen_reptile.runtime.progress import no_progress
from eigen_reptile.runtime.rng import generator_at
from eigen_reptile.tasks import TaskConfig, Tasks, draw_batches, each_step, each_task, take_samples

SINE = Sine().load(no_progress).train


def rngs(seeds: range, step: int = 0) -> list[np.random.Generator]:
    return [generator_at(seed, "tasks", step) for seed in seeds]


def sine_tasks(shots: int) -> Tasks:
    """Four tasks for each of two replicas."""
    return sample_tasks(SINE, TaskShape(way=1, shots=shots, queries=1), 4, rngs(range(2)))


@pytest.mark.parametrize(("m", "steps", "size"), [(50, 5, 10), (10, 32, 10), (7, 4, 5), (3, 2, 8)])
def test_batches_are_shuffled_passes_over_the_support(m: int, steps: int, size: int) -> None:
    tasks = sine_tasks(m)
    batches = draw_batches(tasks, steps, size, [generator_at(seed, "batches") for seed in range(2)])
    assert batches.chosen.shape == (2, 4, steps, size)
    assert (batches.weight == 1).all()
    for replica in range(2):
        for task in range(4):
            order = batches.chosen[replica, task].flatten()
            assert torch.equal(batches.y[replica, task].flatten(0, 1), tasks.y[replica, task, order])
            for start in range(0, len(order), m):
                whole_pass = order[start : start + m].tolist()
                assert len(set(whole_pass)) == len(whole_pass)
    assert not torch.equal(batches.chosen[0, 0], batches.chosen[0, 1])


@pytest.mark.parametrize("m", [1, 7])
def test_a_size_of_none_takes_the_whole_support_in_every_step(m: int) -> None:
    tasks = sine_tasks(m)
    whole, same = (draw_batches(tasks, 3, size, rngs(range(2))) for size in (None, m))
    assert whole.chosen.shape == (2, 4, 3, m)
    assert (whole.chosen.sort(-1).values == torch.arange(m)).all()
    assert all(torch.equal(part, other) for part, other in zip(whole, same, strict=True))


def test_batches_give_each_image_its_own_label() -> None:
    pixels = np.repeat(np.arange(5, dtype=np.uint8), 6)[:, None, None, None]  # the only pixel is the class
    bank = ImageBank(pixels, list("abcde"), [6] * 5)
    tasks = sample_tasks(bank, TaskShape(way=3, shots=4, queries=0), 2, rngs(range(2)))
    batches = draw_batches(tasks, 5, 7, rngs(range(2), step=1))
    pixel = take_samples(tasks.x, batches.chosen.flatten(2)).flatten(2)
    label = batches.y.flatten(2)
    for replica in range(2):
        for task in range(2):
            pairs = set(zip(pixel[replica, task].tolist(), label[replica, task].tolist(), strict=True))
            assert len(pairs) == len({pixel for pixel, _ in pairs}) == len({label for _, label in pairs}) == 3


def test_batches_know_which_labels_are_clean() -> None:
    tasks = sine_tasks(7)
    tasks = tasks._replace(is_clean=torch.arange(7).expand(2, 4, 7) % 3 > 0)
    batches = draw_batches(tasks, 4, 5, rngs(range(2)))
    assert torch.equal(batches.is_clean, batches.chosen % 3 > 0)


def test_splitting_by_task_and_by_step_loses_nothing() -> None:
    tasks = sine_tasks(7)
    batches = draw_batches(tasks, 3, 5, rngs(range(2)))
    parts = list(each_task(tasks, batches))
    assert len(parts) == 4
    for whole, split in ((tasks, [one for one, _ in parts]), (batches, [its for _, its in parts])):
        for number, part in enumerate(whole):
            assert torch.equal(torch.cat([one[number] for one in split], dim=1), part)
    steps = list(each_step(batches))
    assert len(steps) == 3
    for number, part in enumerate(batches):
        assert torch.equal(torch.cat([step[number] for step in steps], dim=2), part)


def test_the_size_of_a_training_task() -> None:
    config = TaskConfig(way=5, shots=3, queries=2)
    assert (config.support, config.samples) == (15, 25)
