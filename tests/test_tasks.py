"""Tasks, mini-batches, and randomness by address."""

from typing import get_args

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from eigen_reptile.data import ImageBank, Sine, TaskShape
from eigen_reptile.progress import silent
from eigen_reptile.streams import Purpose, lent_streams, stream
from eigen_reptile.tasks import draw_batches, in_passes, sample_tasks, take_samples, whole_batches

SINE = Sine().load(silent).train


def rngs(seeds: range, step: int = 0) -> list[np.random.Generator]:
    return [stream(seed, "tasks", step) for seed in seeds]


def shots(count: int) -> TaskShape:
    return TaskShape(way=1, shots=count, queries=1)


def test_an_address_always_draws_the_same_and_no_other_does() -> None:
    addresses = [(seed, purpose, step) for seed in (0, 1) for purpose in ("tasks", "batches") for step in (0, 1, 2**40)]
    draws = [stream(seed, purpose, step).random(4) for seed, purpose, step in addresses]  # type: ignore[arg-type]
    again = [stream(seed, purpose, step).random(4) for seed, purpose, step in addresses]  # type: ignore[arg-type]
    assert np.array_equal(draws, again)
    assert len({draw.tobytes() for draw in draws}) == len(addresses)


def test_sine_tasks_are_sine_curves_over_the_interval() -> None:
    tasks = sample_tasks(SINE, shots(50), 400, rngs(range(2)))
    x, y = tasks.query_x[..., 0].double(), tasks.query_y[..., 0].double()
    assert x.min() == -5.0
    assert x.max() == 5.0
    # A sin(x + b) = a sin x + c cos x: least squares must leave nothing over.
    design = torch.stack([x[0, 0].sin(), x[0, 0].cos()], dim=1)
    flat = y.reshape(-1, 50).T
    coefficients = torch.linalg.lstsq(design, flat).solution
    torch.testing.assert_close(design @ coefficients, flat, atol=1e-5, rtol=0)
    amplitude = coefficients.norm(dim=0)
    phase = torch.atan2(coefficients[1], coefficients[0]) % (2 * torch.pi)
    assert 0.1 <= amplitude.min() < 0.2
    assert 4.9 < amplitude.max() <= 5.0
    assert amplitude.mean().item() == pytest.approx(2.55, abs=0.2)
    assert phase.mean().item() == pytest.approx(torch.pi, abs=0.3)


def test_training_support_is_the_grid_and_few_shots_come_from_it() -> None:
    whole = sample_tasks(SINE, shots(50), 3, rngs(range(1)))
    assert torch.equal(whole.x, whole.query_x)
    assert torch.equal(whole.y, whole.query_y)
    few = sample_tasks(SINE, shots(10), 3, rngs(range(1)))
    for task in range(3):
        grid = dict(zip(few.query_x[0, task, :, 0].tolist(), few.query_y[0, task, :, 0].tolist(), strict=True))
        assert all(
            grid[x] == y for x, y in zip(few.x[0, task, :, 0].tolist(), few.y[0, task, :, 0].tolist(), strict=True)
        )


def test_a_lane_draws_what_it_would_draw_alone() -> None:
    together = sample_tasks(SINE, shots(10), 2, rngs(range(3)))
    alone = sample_tasks(SINE, shots(10), 2, rngs(range(1, 2)))
    for part, own in zip(together, alone, strict=True):
        assert torch.equal(part[1], own[0])


@pytest.mark.parametrize(("m", "steps", "size"), [(50, 5, 10), (10, 32, 10), (7, 4, 5), (3, 2, 8)])
def test_batches_are_shuffled_passes_over_the_support(m: int, steps: int, size: int) -> None:
    tasks = sample_tasks(SINE, shots(m), 4, rngs(range(2)))
    batches = draw_batches(tasks, steps, size, [stream(seed, "batches") for seed in range(2)])
    assert batches.chosen.shape == (2, 4, steps, size)
    assert (batches.weight == 1).all()
    for lane in range(2):
        for task in range(4):
            order = batches.chosen[lane, task].flatten()
            assert torch.equal(batches.y[lane, task].flatten(0, 1), tasks.y[lane, task, order])
            for start in range(0, len(order), m):
                whole_pass = order[start : start + m].tolist()
                assert len(set(whole_pass)) == len(whole_pass)
    assert not torch.equal(batches.chosen[0, 0], batches.chosen[0, 1])


def test_pictures_stay_bytes_and_labels_stay_whole() -> None:
    pixels = np.arange(256, dtype=np.uint8).reshape(4, 4, 4, 4)
    bank = ImageBank(pixels, ["first", "second"], [2, 2])
    tasks = sample_tasks(bank, TaskShape(way=2, shots=1, queries=1), 2, rngs(range(3)))
    assert tasks.x.shape == tasks.query_x.shape == (3, 2, 2, 4, 4, 4)
    assert tasks.y.dtype == tasks.query_y.dtype == torch.int64
    for task in range(2):
        # All four pictures are in it, so all bytes are.
        found = torch.cat([tasks.x[1, task], tasks.query_x[1, task]]).flatten().sort().values
        assert torch.equal(found, torch.arange(256, dtype=torch.uint8))


def test_batches_tell_each_picture_its_own_label() -> None:
    pixels = np.repeat(np.arange(5, dtype=np.uint8), 6)[:, None, None, None]  # the only pixel says the class
    bank = ImageBank(pixels, list("abcde"), [6] * 5)
    tasks = sample_tasks(bank, TaskShape(way=3, shots=4, queries=0), 2, rngs(range(2)))
    batches = draw_batches(tasks, 5, 7, rngs(range(2), step=1))
    shown = take_samples(tasks.x, batches.chosen.flatten(2)).flatten(2)
    said = batches.y.flatten(2)
    for lane in range(2):
        for task in range(2):
            pairs = set(zip(shown[lane, task].tolist(), said[lane, task].tolist(), strict=True))
            assert len(pairs) == len({pixel for pixel, _ in pairs}) == len({label for _, label in pairs}) == 3


@given(st.integers(0, 2**63 - 1), st.integers(0, 2**63 - 1), st.sampled_from(["init", "tasks", "noise"]))
@settings(max_examples=50, deadline=None)
def test_a_stream_is_philox_with_that_key_and_counter(seed: int, step: int, purpose: Purpose) -> None:
    key = np.array([seed, get_args(Purpose).index(purpose)], dtype=np.uint64)
    counter = np.array([0, 0, 0, step], dtype=np.uint64)
    slow = np.random.Generator(np.random.Philox(key=key, counter=counter))
    ours = stream(seed, purpose, step)
    assert ours.random(9).tolist() == slow.random(9).tolist()
    assert ours.integers(1000, size=9, dtype=np.int32).tolist() == slow.integers(1000, size=9, dtype=np.int32).tolist()


def test_lent_streams_draw_what_new_ones_would() -> None:
    seeds = (3, 5)
    for steps in (range(1), range(4, 7), range(2)):  # more of them, then fewer, after the others have been drawn from
        found = lent_streams(seeds, "tasks", steps)
        others = lent_streams(seeds, "batches", steps)
        expected = [stream(seed, "tasks", step) for step in steps for seed in seeds]
        for ours, theirs, other in zip(found, expected, others, strict=True):
            other.integers(9)
            assert ours.integers(9, dtype=np.uint32) == theirs.integers(9, dtype=np.uint32)  # leaves half a draw behind
            assert (ours.random(3) == theirs.random(3)).all()


@given(st.integers(1, 40), st.integers(1, 30), st.integers(0, 5))
def test_each_pass_meets_everything_once(total: int, size: int, seed: int) -> None:
    """However it is cut into batches, and in another order each time."""
    batches = -(-3 * total // size)
    order = np.concatenate([in_passes(total, seed, number * size, size) for number in range(batches)])[: 3 * total]
    for one in order.reshape(3, total):
        assert sorted(one) == list(range(total))
    if total > 20:
        assert len({one.tobytes() for one in order.reshape(3, total)}) == 3


def test_batches_of_the_whole_set_have_its_pictures_under_their_own_classes() -> None:
    pixels = np.arange(6, dtype=np.uint8)[:, None, None, None] * np.ones((1, 2, 3, 1), dtype=np.uint8)
    bank = ImageBank(pixels, ["a", "b", "c"], [1, 3, 2])
    drawn = [whole_batches(bank, 2, 1, [(seed, step) for seed in (0, 1)], rngs(range(2))) for step in range(3)]
    x, y = (torch.cat(parts, dim=2)[:, 0] for parts in zip(*((tasks.x, tasks.y) for tasks in drawn), strict=True))
    for lane in range(2):
        assert sorted(x[lane, :, 0, 0, 0].tolist()) == list(range(6))
        assert y[lane].tolist() == [[0, 1, 1, 1, 2, 2][picture] for picture in x[lane, :, 0, 0, 0]]
    assert not torch.equal(x[0], x[1])
    tasks = drawn[0]
    assert tasks.x.shape == (2, 1, 2, 1, 2, 3)
    assert tasks.query_x.shape == (2, 1, 0, 1, 2, 3)
    assert tasks.classes.tolist() == [[[0, 1, 2]]] * 2
    assert tasks.right.all()
