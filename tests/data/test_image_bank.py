"""Tasks drawn from images that all differ, so that each drawn image can be identified."""

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from eigen_reptile.data import ImageBank, Samples, TaskShape
from eigen_reptile.data.image_bank import images_by_class
from eigen_reptile.errors import DataError
from eigen_reptile.runtime.rng import generator_at


class Identity(NamedTuple):
    label: int
    number: int
    rotation: int


class Source(NamedTuple):
    bank: ImageBank
    known: Mapping[bytes, Identity]
    """Identity of each image in each rotation, by its bytes."""


def source(sizes: list[int], rotations: bool = False, height: int = 4, width: int = 4, channels: int = 1) -> Source:
    pixels = np.random.default_rng(0).integers(256, size=(sum(sizes), height, width, channels), dtype=np.uint8)
    which = [(label, number) for label, size in enumerate(sizes) for number in range(size)]
    known = {
        np.rot90(image, rotation).tobytes(): Identity(label, number, rotation)
        for image, (label, number) in zip(pixels, which, strict=True)
        for rotation in (range(4) if rotations else range(1))
    }
    assert len(known) == sum(sizes) * (4 if rotations else 1)
    return Source(ImageBank(pixels, [f"class {label}" for label in range(len(sizes))], sizes, rotations), known)


def rngs(*seeds: int) -> list[np.random.Generator]:
    return [generator_at(seed, "tasks") for seed in seeds]


def identify(known: Mapping[bytes, Identity], images: np.ndarray) -> list[Identity]:
    """Identify images that have their channels first, as the network receives them."""
    return [known[np.moveaxis(image, 0, -1).tobytes()] for image in images]


def check_task(drawn: Source, samples: Samples, replica: int, task: int, shape: TaskShape) -> None:
    """Check the labels and counts of one task, and that no image is repeated that must not be."""
    support = identify(drawn.known, samples.x[replica, task])
    queries = identify(drawn.known, samples.query_x[replica, task])
    assert sorted(samples.y[replica, task]) == sorted(list(range(shape.way)) * shape.shots)
    assert sorted(samples.query_y[replica, task]) == sorted(list(range(shape.way)) * shape.queries)
    classes = []
    for label in range(shape.way):
        own = [one for one, y in zip(support, samples.y[replica, task], strict=True) if y == label]
        predicted = [one for one, y in zip(queries, samples.query_y[replica, task], strict=True) if y == label]
        (kind,) = {(one.label, one.rotation) for one in own + predicted}
        classes.append(kind)
        if shape.queries:
            assert len(set(own + predicted)) == shape.shots + shape.queries
        else:
            counts = [own.count(one) for one in set(own)]
            size = int(drawn.bank.sizes[kind[0]])
            assert len(counts) == min(size, shape.shots)
            assert max(counts) == -(-shape.shots // size)
            assert max(counts) - min(counts) <= 1
    assert len(set(classes)) == shape.way


@given(
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=8),
    rotations=st.booleans(),
    way=st.integers(1, 6),
    shots=st.integers(1, 7),
    queries=st.integers(0, 6),
    seed=st.integers(0, 2**40),
)
@settings(max_examples=150, deadline=None)
def test_tasks_are_complete_whatever_the_class_sizes(
    sizes: list[int], rotations: bool, way: int, shots: int, queries: int, seed: int
) -> None:
    drawn = source(sizes, rotations)
    requested = TaskShape(way, shots, queries)
    copies = 4 if rotations else 1
    with_one_query = sum(copies for size in sizes if size > shots)
    if len(sizes) * copies < way or (queries and with_one_query < way):
        with pytest.raises(DataError):
            drawn.bank.feasible_shape(requested)
        return
    feasible = drawn.bank.feasible_shape(requested)
    assert (feasible.way, feasible.shots) == (way, shots)
    if queries:
        assert 1 <= feasible.queries <= queries

        def able(more: int) -> int:
            return sum(copies for size in sizes if size >= shots + more)

        # Half of the classes take part if they have images left for a query; one more query would exclude too many.
        half = max(way, math.ceil(len(sizes) * copies / 2))
        taking_part = half if able(1) >= half else way
        assert able(feasible.queries) >= taking_part
        assert feasible.queries == queries or able(feasible.queries + 1) < taking_part
    else:
        assert feasible.queries == 0
    samples = drawn.bank.draw_tasks(2, feasible, rngs(seed, seed + 1))
    assert samples.x.shape == (2, 2, way * shots, 1, 4, 4)
    assert samples.query_x.shape == (2, 2, way * feasible.queries, 1, 4, 4)
    for replica in range(2):
        for task in range(2):
            check_task(drawn, samples, replica, task, feasible)


def test_every_class_and_image_is_drawn_equally_often() -> None:
    sizes, shape = [3, 5, 4], TaskShape(2, 1, 1)
    drawn = source(sizes)
    samples = drawn.bank.draw_tasks(6000, shape, rngs(0))
    first = identify(drawn.known, samples.x[0, :, 0])
    for label, size in enumerate(sizes):
        assert sum(one.label == label for one in first) == pytest.approx(2000, abs=150)
        for number in range(size):
            fraction = sum(one[:2] == (label, number) for one in first) / 6000
            assert fraction == pytest.approx(1 / (3 * size), rel=0.2)


def test_images_keep_their_height_width_and_channels() -> None:
    drawn = source([6, 6], height=3, width=5, channels=4)
    assert drawn.bank.shape == (4, 3, 5)
    samples = drawn.bank.draw_tasks(3, TaskShape(2, 2, 1), rngs(0))
    assert samples.x.shape == (1, 3, 4, 4, 3, 5)
    assert samples.x.dtype == np.uint8
    check_task(drawn, samples, 0, 2, TaskShape(2, 2, 1))


def test_rotated_classes_are_classes_of_their_own() -> None:
    drawn = source([3, 3], rotations=True)
    assert drawn.bank.n_nonempty_classes == 8
    samples = drawn.bank.draw_tasks(300, TaskShape(8, 1, 2), rngs(0))
    for task in range(300):
        # With all eight in each task, every class must occur in every rotation.
        check_task(drawn, samples, 0, task, TaskShape(8, 1, 2))
    seen = {
        one.rotation for one in identify(drawn.known, drawn.bank.draw_tasks(40, TaskShape(1, 1, 0), rngs(1)).x[0, :, 0])
    }
    assert seen == {0, 1, 2, 3}


def test_rotated_classes_have_indices_of_their_own() -> None:
    drawn = source([3, 3, 3], rotations=True)
    assert drawn.bank.n_classes == 12
    samples = drawn.bank.draw_tasks(5, TaskShape(12, 1, 1), rngs(0))
    for task in range(5):
        seen = identify(drawn.known, samples.x[0, task])
        assert samples.classes[0, task].tolist() == [one.label + 3 * one.rotation for one in seen]
        assert sorted(samples.classes[0, task]) == list(range(12))


def test_a_class_without_images_keeps_its_index() -> None:
    bank = source([3, 3, 3]).bank.with_labels(np.repeat([0, 2, 2], 3))
    assert (bank.n_nonempty_classes, bank.n_classes) == (2, 3)
    assert set(bank.draw_tasks(1, TaskShape(2, 1, 0), rngs(0)).classes.flatten()) == {0, 2}


def test_a_replica_draws_what_it_would_draw_alone() -> None:
    bank = source([5, 6, 7, 8], rotations=True).bank
    shape = TaskShape(3, 2, 2)
    together, alone = bank.draw_tasks(4, shape, rngs(3, 4, 5)), bank.draw_tasks(4, shape, rngs(4))
    for part, own in zip(together, alone, strict=True):
        assert np.array_equal(part[1], own[0])
    assert not np.array_equal(together.x[0], together.x[1])


def test_drawing_returns_copies_of_the_images() -> None:
    drawn = source([6, 6], rotations=True)
    before = drawn.bank.pixels.copy()
    drawn.bank.pixels.flags.writeable = False  # like a file that is memory-mapped for reading
    samples = drawn.bank.draw_tasks(20, TaskShape(2, 2, 1), rngs(0))
    samples.x[...] = 0
    assert np.array_equal(drawn.bank.pixels, before)


def test_fewer_queries_and_excluded_classes_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    drawn = source([9, 3, 8, 8, 2])
    feasible = drawn.bank.feasible_shape(TaskShape(3, 2, 15))
    assert feasible == TaskShape(3, 2, 6)
    logged = " ".join(record.getMessage() for record in caplog.records)
    assert "class 1, class 4" in logged
    assert "too small for 15 queries in 2-shot tasks: using 6" in logged
    samples = drawn.bank.draw_tasks(50, feasible, rngs(0))
    assert {one.label for one in identify(drawn.known, samples.x[0].reshape(-1, 1, 4, 4))} == {0, 2, 3}


def test_a_few_large_classes_do_not_exclude_all_others() -> None:
    bank = source([12] * 3 + [11] * 20).bank
    assert bank.feasible_shape(TaskShape(3, 5, 15)) == TaskShape(3, 5, 6)


def test_nothing_is_logged_if_the_requested_task_is_feasible(caplog: pytest.LogCaptureFixture) -> None:
    bank = source([5, 6]).bank
    assert bank.feasible_shape(TaskShape(2, 2, 3)) == TaskShape(2, 2, 3)
    assert bank.feasible_shape(TaskShape(2, 50, 0)) == TaskShape(2, 50, 0)
    assert not caplog.records


@pytest.mark.parametrize(
    ("sizes", "shape", "words"),
    [
        ([5, 5], TaskShape(3, 1, 1), r"3 classes .* from 2: .*`task\.way`"),
        ([5, 5], TaskShape(3, 1, 0), r"3 classes .* from 2: .*`task\.way`"),
        ([5, 5, 9], TaskShape(2, 5, 1), r"only 1 have more than 5 images: use fewer shots"),
        ([5, 0, 0], TaskShape(2, 1, 0), r"2 classes .* from 1: .*`task\.way`"),
    ],
)
def test_infeasible_tasks_are_rejected(sizes: list[int], shape: TaskShape, words: str) -> None:
    with pytest.raises(DataError, match=words):
        source(sizes).bank.feasible_shape(shape)


@pytest.mark.parametrize("rotations", [False, True])
def test_take_gives_every_image_by_its_index(rotations: bool) -> None:
    bank, known = source([2, 0, 3], rotations)
    found = bank.take(np.arange(bank.size).reshape(1, 1, -1), rngs(0))
    drawn = identify(known, found.x[0, 0])
    assert len(set(drawn)) == bank.size == len(known)
    assert found.y[0, 0].tolist() == [one.label + 3 * one.rotation for one in drawn]
    assert found.classes[0, 0].tolist() == list(range(bank.n_classes))


def test_take_says_which_labels_are_clean() -> None:
    bank, known = source([2, 3])
    given_labels = np.array([1, 0, 1, 1, -1])
    found = bank.with_labels(given_labels).take(np.arange(4).reshape(1, 1, -1), rngs(0))
    for one, y, is_clean in zip(identify(known, found.x[0, 0]), found.y[0, 0], found.is_clean[0, 0], strict=True):
        position = [0, 2][one.label] + one.number
        assert y == given_labels[position]
        assert is_clean == (y == one.label)


def test_names_of_classes_that_are_not_utf_8_can_be_stored() -> None:
    bank = ImageBank(np.zeros((3, 4, 4, 1), np.uint8), ["\udcff\udcfe", "plain"], [1, 2])
    counts = images_by_class(bank)
    assert counts is not None
    assert list(counts.values()) == [1, 2]
    assert [name.encode().decode() for name in counts] == ["\\udcff\\udcfe", "plain"]
