"""The centre of features, and what a class that is much larger than the others does to it."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from eigen_reptile.practice.heads import Support, Trust
from eigen_reptile.practice.heads.scaling import LARGEST, Scaling
from practice.heads.supports import clusters


def of_sizes(sizes: list[int], features: int, seed: int, spread: float = 0.4) -> Support:
    """One task whose classes have these numbers of samples."""
    whole = clusters(len(sizes), max(sizes), features, seed, spread)
    kept = torch.cat([torch.arange(size) + number * max(sizes) for number, size in enumerate(sizes)])
    return Support(whole.x[:, kept], whole.y[:, kept], len(sizes))


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 12), min_size=2, max_size=6).filter(any), st.integers(0, 99))
def test_the_centre_is_that_of_a_loop_over_classes(sizes: list[int], seed: int) -> None:
    support = of_sizes(sizes, 3, seed)
    present = sorted(size for size in sizes if size)
    median = present[(len(present) - 1) // 2]
    total, weights = np.zeros(3), 0.0
    for number, size in enumerate(sizes):
        if size:
            weight = min(size, LARGEST * median)
            total += weight * support.x[0, support.y[0] == number].numpy().mean(0)
            weights += weight
    np.testing.assert_allclose(Scaling.of(support).mean[0, 0], total / weights, rtol=1e-9, atol=1e-12)


def test_classes_of_similar_sizes_are_centred_on_the_mean_of_all_samples() -> None:
    support = of_sizes([6, 5, 4, 7], 8, seed=0)
    scaling = Scaling.of(support)
    torch.testing.assert_close(scaling.mean[0, 0], support.x[0].mean(0))
    assert float(scaling(support.x).norm(dim=-1).mean()) == pytest.approx(1)


@pytest.mark.parametrize("large", [50, 500])
def test_labels_of_a_much_larger_class_are_trusted(large: int) -> None:
    """Centred on the mean of all samples, this class has no direction, and its labels look as wrong as any."""
    support = of_sizes([large, 5, 5, 5, 5], 64, seed=0)
    y = support.y.clone()
    y[0, large] = 0  # a sample of the second class
    judged = Trust().judge(support._replace(y=y)).trust[0]
    assert int(judged.argmin()) == large
    assert float(judged[large]) < 0.5 < float(judged[:large].quantile(0.05))
