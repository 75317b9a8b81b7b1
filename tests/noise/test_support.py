"""Wrong labels in the support: exact counts, pluralities, derangements, and the same for everybody."""

import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from eigen_reptile.data import TaskShape
from eigen_reptile.data.sampling import sample_tasks
from eigen_reptile.errors import ConfigError, DataError
from eigen_reptile.noise import NoiseConfig, check_support_noise, measure_noise, support_labels, with_support_noise
from eigen_reptile.noise.support import MixedNoiseBank
from eigen_reptile.runtime.rng import generator_at
from eigen_reptile.tasks import Tasks
from pixel_bank import KNOWN, pixel_bank

rates = st.sampled_from([0.0, 0.1, 0.2, 0.4, 0.6])
seeds = st.integers(0, 10_000)


def labels_of(kind: str, rate: float, way: int, shots: int, seed: int) -> list[list[int]]:
    """The given labels of each class."""
    found = support_labels(kind, rate, way, shots, np.random.default_rng(seed))  # type: ignore[arg-type]
    return [[int(label) for label in row] for row in found]


@given(st.integers(3, 7), st.integers(1, 12), rates, seeds)
def test_symmetric_noise_has_an_exact_count_of_each_class_and_label(
    way: int, shots: int, rate: float, seed: int
) -> None:
    labels = labels_of("symmetric", rate, way, shots, seed)
    wrong = round(rate * shots)
    for number, own in enumerate(labels):
        assert sum(label != number for label in own) == wrong
    assert Counter(itertools.chain(*labels)) == Counter(dict.fromkeys(range(way), shots))


@given(st.integers(3, 7), st.integers(1, 12), rates, seeds)
def test_symmetric_noise_is_spread_evenly(way: int, shots: int, rate: float, seed: int) -> None:
    """So the true class has the most samples of a label wherever that is possible."""
    wrong = round(rate * shots)
    for number, own in enumerate(labels_of("symmetric", rate, way, shots, seed)):
        others = Counter(label for label in own if label != number)
        assert max(others.values(), default=0) == -(-wrong // (way - 1))
        assert wrong < way - 1 or min(others.values(), default=0) >= wrong // (way - 1)


def test_three_of_five_wrong_labels_leave_a_plurality() -> None:
    labels = np.array(labels_of("symmetric", 0.6, 5, 5, 0))
    true = np.repeat(np.arange(5), 5).reshape(5, 5)
    for label in range(5):
        samples = Counter(true[labels == label].tolist())
        assert samples[label] == 2
        assert [count for number, count in samples.items() if number != label] == [1, 1, 1]


@given(st.integers(2, 7), st.integers(2, 12), st.sampled_from([0.2, 0.4]), seeds)
def test_paired_noise_is_a_derangement(way: int, shots: int, rate: float, seed: int) -> None:
    wrong = round(rate * shots)
    partners = []
    for number, own in enumerate(labels_of("paired", rate, way, shots, seed)):
        flipped = [label for label in own if label != number]
        assert len(flipped) == wrong
        assert len(set(flipped)) <= 1
        partners += flipped[:1]
    assert sorted(partners) == (list(range(way)) if wrong else [])


def _partners(labels: list[list[int]]) -> list[int]:
    """The wrong label of each class."""
    return [next(label for label in own if label != number) for number, own in enumerate(labels)]


def test_all_derangements_are_equally_likely() -> None:
    """Of four classes there are nine."""
    found = Counter(tuple(_partners(labels_of("paired", 0.4, 4, 5, seed))) for seed in range(1800))
    assert len(found) == 9
    assert all(140 < count < 260 for count in found.values())


def test_which_samples_are_wrong_is_random() -> None:
    """Each of the samples of a class equally often, and each other label too."""
    found = np.array([labels_of("symmetric", 0.4, 5, 5, seed) for seed in range(1000)])
    wrong = found != np.arange(5)[:, None]
    assert np.allclose(wrong.mean(0), 0.4, atol=0.07)
    counts = np.array([[(found[:, a] == b).sum() for b in range(5)] for a in range(5)])
    off_diagonal = counts[~np.eye(5, dtype=bool)]
    assert np.allclose(off_diagonal / 1000, 0.5, atol=0.07)


def drawn(
    kind: str, rate: float, shape: TaskShape, numbers: range = range(4), classes: int = 20
) -> tuple[Tasks, Tasks]:
    """Tasks without and with noise."""
    bank = pixel_bank(classes=classes)
    clean = sample_tasks(bank, shape, 1, [generator_at(0, "test", number) for number in numbers])
    rngs = [generator_at(0, "support", number) for number in numbers]
    return clean, with_support_noise(clean, bank, shape, kind, rate, rngs)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["symmetric", "paired"])
def test_images_and_queries_stay(kind: str) -> None:
    clean, noisy = drawn(kind, 0.4, TaskShape(5, 5, 3))
    for part in ("x", "query_x", "query_y", "classes"):
        assert getattr(noisy, part).equal(getattr(clean, part))
    assert noisy.is_clean.equal(noisy.y == clean.y)
    assert (~noisy.is_clean).sum(-1).tolist() == [[10]] * 4


def test_a_task_does_not_depend_on_those_drawn_with_it() -> None:
    for kind in ("symmetric", "paired", "outlier"):
        shape = TaskShape(5, 5, 3)
        _, together = drawn(kind, 0.4, shape)
        _, alone = drawn(kind, 0.4, shape, range(2, 3))
        assert all(one[2].equal(other[0]) for one, other in zip(together, alone, strict=True))


@settings(deadline=None)
@given(st.integers(2, 6), st.integers(2, 8), st.sampled_from([0.4, 0.6]), st.integers(1, 8))
def test_outliers_are_of_other_classes(way: int, shots: int, rate: float, more: int) -> None:
    """The only pixel of an image is its class; labels stay, and no more than the exact count is replaced."""
    clean, noisy = drawn("outlier", rate, TaskShape(way, shots, 2), classes=way + more)
    assert noisy.y.equal(clean.y)
    assert noisy.query_x.equal(clean.query_x)
    for task in range(4):
        own, pixels = set(clean.classes[task, 0].tolist()), noisy.x[task, 0].flatten().view(way, shots)
        is_clean = noisy.is_clean[task, 0].view(way, shots)
        assert ((~is_clean).sum(1) == round(rate * shots)).all()
        assert not own & set(pixels[~is_clean].tolist())
        assert pixels[is_clean].equal(clean.x[task, 0].flatten().view(way, shots)[is_clean])


def test_outliers_need_classes_outside_of_a_task() -> None:
    with pytest.raises(DataError, match=r"5 classes and a task has 5: use a smaller .*`evaluation\.way`"):
        drawn("outlier", 0.4, TaskShape(5, 5, 2), classes=5)


@pytest.mark.parametrize(
    ("kind", "rate", "way", "shots", "says"),
    [
        ("symmetric", 0.2, 5, 1, "less than one wrong label"),
        ("symmetric", 0.6, 5, 1, "leaves 0 of 1 shots right"),
        ("symmetric", 0.6, 2, 5, "leaves 2 of 5 shots right, and 3 can be of one other class"),
        ("paired", 0.6, 5, 5, "leaves 2 of 5 shots right, and 3 can be of one other class"),
    ],
)
def test_noise_that_leaves_no_plurality_is_refused(kind: str, rate: float, way: int, shots: int, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        check_support_noise(kind, rate, way, shots, "evaluation.support_rate")  # type: ignore[arg-type]


@pytest.mark.parametrize(("kind", "rate"), [("symmetric", 0.6), ("paired", 0.4), ("outlier", 0.6), ("symmetric", 0.0)])
def test_noise_that_leaves_a_plurality_is_accepted(kind: str, rate: float) -> None:
    check_support_noise(kind, rate, 5, 5, "evaluation.support_rate")  # type: ignore[arg-type]


def test_mixed_noise_has_a_rate_for_each_training_task_and_clean_queries() -> None:
    bank, shape = pixel_bank(), TaskShape(5, 10, 3)
    rngs = [generator_at(seed, "tasks", 0) for seed in range(3)]
    samples = MixedNoiseBank(bank).draw_tasks(60, shape, rngs)
    true = np.repeat(np.arange(5), 10)
    assert np.array_equal(samples.is_clean, samples.y == true)
    wrong = (~samples.is_clean).reshape(3, 60, 5, 10).sum(-1)
    assert (wrong == wrong[..., :1]).all()
    assert {int(count) for count in wrong.ravel()} == {0, 2, 4}
    assert all((wrong[..., 0] == count).mean() > 0.2 for count in (0, 2, 4))
    assert np.array_equal(samples.query_y, np.broadcast_to(np.repeat(np.arange(5), 3), samples.query_y.shape))


def test_mixed_noise_can_be_measured() -> None:
    found = measure_noise(pixel_bank(), NoiseConfig("mixed"), KNOWN, TaskShape(5, 5, 0), 6000)
    assert found.rate == pytest.approx(0.2, abs=0.03)


def test_mixed_noise_draws_its_own_rates() -> None:
    for contradictory in ({"rate": 0.2}, {"where": "bank"}):
        with pytest.raises(ConfigError, match="draws its rates in each task"):
            NoiseConfig("mixed", **contradictory)
