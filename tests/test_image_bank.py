"""Tasks drawn from pictures that all differ, so that each one drawn tells which it was."""

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eigen_reptile.data import DataError, ImageBank, Samples, TaskShape
from eigen_reptile.streams import stream


class Drawn(NamedTuple):
    label: int
    number: int
    turn: int


class Source(NamedTuple):
    bank: ImageBank
    known: Mapping[bytes, Drawn]
    """What each picture, in each turn, is."""


def source(sizes: list[int], turned: bool = False, height: int = 4, width: int = 4, channels: int = 1) -> Source:
    pixels = np.random.default_rng(0).integers(256, size=(sum(sizes), height, width, channels), dtype=np.uint8)
    which = [(label, number) for label, size in enumerate(sizes) for number in range(size)]
    known = {
        np.rot90(picture, turn).tobytes(): Drawn(label, number, turn)
        for picture, (label, number) in zip(pixels, which, strict=True)
        for turn in (range(4) if turned else range(1))
    }
    assert len(known) == sum(sizes) * (4 if turned else 1)
    return Source(ImageBank(pixels, [f"class {label}" for label in range(len(sizes))], sizes, turned), known)


def rngs(*seeds: int) -> list[np.random.Generator]:
    return [stream(seed, "tasks") for seed in seeds]


def told(known: Mapping[bytes, Drawn], pictures: np.ndarray) -> list[Drawn]:
    """Which pictures these are; the network gets them with the channels first."""
    return [known[np.moveaxis(picture, 0, -1).tobytes()] for picture in pictures]


def check_task(drawn: Source, samples: Samples, lane: int, task: int, shape: TaskShape) -> None:
    """One task is what it should be: its labels, its counts, nothing twice that must not be."""
    support = told(drawn.known, samples.x[lane, task])
    queries = told(drawn.known, samples.query_x[lane, task])
    assert sorted(samples.y[lane, task]) == sorted(list(range(shape.way)) * shape.shots)
    assert sorted(samples.query_y[lane, task]) == sorted(list(range(shape.way)) * shape.queries)
    classes = []
    for label in range(shape.way):
        own = [one for one, y in zip(support, samples.y[lane, task], strict=True) if y == label]
        asked = [one for one, y in zip(queries, samples.query_y[lane, task], strict=True) if y == label]
        (kind,) = {(one.label, one.turn) for one in own + asked}
        classes.append(kind)
        if shape.queries:
            assert len(set(own + asked)) == shape.shots + shape.queries
        else:
            counts = [own.count(one) for one in set(own)]
            size = int(drawn.bank.sizes[kind[0]])
            assert len(counts) == min(size, shape.shots)
            assert max(counts) == -(-shape.shots // size)
            assert max(counts) - min(counts) <= 1
    assert len(set(classes)) == shape.way


@given(
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=8),
    turned=st.booleans(),
    way=st.integers(1, 6),
    shots=st.integers(1, 7),
    queries=st.integers(0, 6),
    seed=st.integers(0, 2**40),
)
@settings(max_examples=150, deadline=None)
def test_tasks_are_whole_whatever_the_sizes(
    sizes: list[int], turned: bool, way: int, shots: int, queries: int, seed: int
) -> None:
    drawn = source(sizes, turned)
    asked = TaskShape(way, shots, queries)
    turns = 4 if turned else 1
    with_one_query = sum(turns for size in sizes if size > shots)
    if len(sizes) * turns < way or (queries and with_one_query < way):
        with pytest.raises(DataError):
            drawn.bank.fitted(asked)
        return
    fitted = drawn.bank.fitted(asked)
    assert (fitted.way, fitted.shots) == (way, shots)
    if queries:
        assert 1 <= fitted.queries <= queries

        def able(more: int) -> int:
            return sum(turns for size in sizes if size >= shots + more)

        # Half of the classes take part if they have any query; then one more query would leave too few classes.
        half = max(way, math.ceil(len(sizes) * turns / 2))
        kept = half if able(1) >= half else way
        assert able(fitted.queries) >= kept
        assert fitted.queries == queries or able(fitted.queries + 1) < kept
    else:
        assert fitted.queries == 0
    samples = drawn.bank.draw(2, fitted, rngs(seed, seed + 1))
    assert samples.x.shape == (2, 2, way * shots, 1, 4, 4)
    assert samples.query_x.shape == (2, 2, way * fitted.queries, 1, 4, 4)
    for lane in range(2):
        for task in range(2):
            check_task(drawn, samples, lane, task, fitted)


def test_every_class_and_picture_and_order_is_drawn_equally_often() -> None:
    sizes, shape = [3, 5, 4], TaskShape(2, 1, 1)
    drawn = source(sizes)
    samples = drawn.bank.draw(6000, shape, rngs(0))
    first = told(drawn.known, samples.x[0, :, 0])
    for label, size in enumerate(sizes):
        assert sum(one.label == label for one in first) == pytest.approx(2000, abs=150)
        for number in range(size):
            share = sum(one[:2] == (label, number) for one in first) / 6000
            assert share == pytest.approx(1 / (3 * size), rel=0.2)


def test_pictures_keep_their_sides_and_channels() -> None:
    drawn = source([6, 6], height=3, width=5, channels=4)
    assert drawn.bank.shape == (4, 3, 5)
    samples = drawn.bank.draw(3, TaskShape(2, 2, 1), rngs(0))
    assert samples.x.shape == (1, 3, 4, 4, 3, 5)
    assert samples.x.dtype == np.uint8
    check_task(drawn, samples, 0, 2, TaskShape(2, 2, 1))


def test_turned_classes_are_classes_of_their_own() -> None:
    drawn = source([3, 3], turned=True)
    assert drawn.bank.classes == 8
    samples = drawn.bank.draw(300, TaskShape(8, 1, 2), rngs(0))
    for task in range(300):
        # With all eight in each task, every class occurs in every turn, and no other.
        check_task(drawn, samples, 0, task, TaskShape(8, 1, 2))
    seen = {one.turn for one in told(drawn.known, drawn.bank.draw(40, TaskShape(1, 1, 0), rngs(1)).x[0, :, 0])}
    assert seen == {0, 1, 2, 3}


def test_turned_classes_have_numbers_of_their_own() -> None:
    drawn = source([3, 3, 3], turned=True)
    assert drawn.bank.class_numbers == 12
    samples = drawn.bank.draw(5, TaskShape(12, 1, 1), rngs(0))
    for task in range(5):
        seen = told(drawn.known, samples.x[0, task])
        assert samples.classes[0, task].tolist() == [one.label + 3 * one.turn for one in seen]
        assert sorted(samples.classes[0, task]) == list(range(12))


def test_a_class_without_pictures_keeps_its_number() -> None:
    bank = source([3, 3, 3]).bank.relabelled(np.repeat([0, 2, 2], 3))
    assert (bank.classes, bank.class_numbers) == (2, 3)
    assert set(bank.draw(1, TaskShape(2, 1, 0), rngs(0)).classes.flatten()) == {0, 2}


def test_a_lane_draws_what_it_would_draw_alone() -> None:
    bank = source([5, 6, 7, 8], turned=True).bank
    shape = TaskShape(3, 2, 2)
    together, alone = bank.draw(4, shape, rngs(3, 4, 5)), bank.draw(4, shape, rngs(4))
    for part, own in zip(together, alone, strict=True):
        assert np.array_equal(part[1], own[0])
    assert not np.array_equal(together.x[0], together.x[1])


def test_drawing_leaves_the_pictures_alone_and_gives_copies() -> None:
    drawn = source([6, 6], turned=True)
    before = drawn.bank.pixels.copy()
    drawn.bank.pixels.flags.writeable = False  # as in a file that is mapped for reading
    samples = drawn.bank.draw(20, TaskShape(2, 2, 1), rngs(0))
    samples.x[...] = 0
    assert np.array_equal(drawn.bank.pixels, before)


def test_too_few_queries_are_said_and_short_classes_left_out(caplog: pytest.LogCaptureFixture) -> None:
    drawn = source([9, 3, 8, 8, 2])
    fitted = drawn.bank.fitted(TaskShape(3, 2, 15))
    assert fitted == TaskShape(3, 2, 6)
    told_by_log = " ".join(record.getMessage() for record in caplog.records)
    assert "class 1, class 4" in told_by_log
    assert "6 queries" in told_by_log
    assert "not 15" in told_by_log
    samples = drawn.bank.draw(50, fitted, rngs(0))
    assert {one.label for one in told(drawn.known, samples.x[0].reshape(-1, 1, 4, 4))} == {0, 2, 3}


def test_a_few_large_classes_do_not_take_the_place_of_all_others() -> None:
    bank = source([12] * 3 + [11] * 20).bank
    assert bank.fitted(TaskShape(3, 5, 15)) == TaskShape(3, 5, 6)


def test_nothing_is_said_where_everything_fits(caplog: pytest.LogCaptureFixture) -> None:
    bank = source([5, 6]).bank
    assert bank.fitted(TaskShape(2, 2, 3)) == TaskShape(2, 2, 3)
    assert bank.fitted(TaskShape(2, 50, 0)) == TaskShape(2, 50, 0)
    assert not caplog.records


@pytest.mark.parametrize(
    ("sizes", "shape", "words"),
    [
        ([5, 5], TaskShape(3, 1, 1), r"3 classes .* from 2: .*--task\.way"),
        ([5, 5], TaskShape(3, 1, 0), r"3 classes .* from 2: .*--task\.way"),
        ([5, 5, 9], TaskShape(2, 5, 1), r"only 1 have more than 5 pictures: use fewer shots"),
        ([5, 0, 0], TaskShape(2, 1, 0), r"2 classes .* from 1: .*--task\.way"),
    ],
)
def test_what_cannot_be_drawn_is_refused(sizes: list[int], shape: TaskShape, words: str) -> None:
    with pytest.raises(DataError, match=words):
        source(sizes).bank.fitted(shape)


@pytest.mark.parametrize("turned", [False, True])
def test_every_picture_has_a_number(turned: bool) -> None:
    bank, known = source([2, 0, 3], turned)
    found = bank.take(np.arange(bank.size).reshape(1, 1, -1), rngs(0))
    drawn = told(known, found.x[0, 0])
    assert len(set(drawn)) == bank.size == len(known)
    assert found.y[0, 0].tolist() == [one.label + 3 * one.turn for one in drawn]
    assert found.classes[0, 0].tolist() == list(range(bank.class_numbers))


def test_what_is_wrong_about_a_picture_is_known_by_its_number() -> None:
    bank, known = source([2, 3])
    given_labels = np.array([1, 0, 1, 1, -1])
    found = bank.relabelled(given_labels).take(np.arange(4).reshape(1, 1, -1), rngs(0))
    for one, y, right in zip(told(known, found.x[0, 0]), found.y[0, 0], found.right[0, 0], strict=True):
        place = [0, 2][one.label] + one.number
        assert y == given_labels[place]
        assert right == (y == one.label)
