"""Heads that compare with one direction for each class, against slow answers for a single task."""

from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings, strategies as st
from scipy.optimize import minimize

from eigen_reptile.errors import ConfigError
from eigen_reptile.practice.heads import (
    Head,
    LinearHead,
    MeanPrototypes,
    Rnnp,
    SimilarityWeighted,
    SpatialMedian,
    Support,
)
from eigen_reptile.practice.heads.prototypes import TEMPERATURE
from eigen_reptile.practice.heads.spatial_median import spatial_medians
from practice.heads.supports import clusters, with_wrong_labels

supports = st.builds(
    lambda way, shots, features, seed: with_wrong_labels(clusters(way, shots, features, seed, spread=1.0), 1),
    st.integers(2, 4), st.integers(2, 6), st.sampled_from([2, 7, 30]), st.integers(0, 999),
)  # fmt: skip


def scaled(support: Support) -> tuple[np.ndarray, np.ndarray]:
    """The features of the only task, centred and with average length one, and its labels."""
    x = support.x[0].numpy()
    x = x - x.mean(0)
    return x / np.linalg.norm(x, axis=1).mean(), support.y[0].numpy()


def assert_directions(head: Head, support: Support, expected: np.ndarray, tolerance: float = 1e-8) -> None:
    """Whether the logits are the cosines to these directions, times the temperature and the length of the sample."""
    fitted = head.fit(support)
    assert isinstance(fitted, LinearHead)
    unit = expected / np.linalg.norm(expected, axis=1, keepdims=True)
    logits = TEMPERATURE * scaled(support)[0] @ unit.T
    np.testing.assert_allclose(fitted.logits(support.x)[0], logits, atol=tolerance * TEMPERATURE)


@settings(max_examples=20, deadline=None)
@given(supports)
def test_means(support: Support) -> None:
    x, y = scaled(support)
    assert_directions(MeanPrototypes(), support, np.stack([x[y == label].mean(0) for label in range(support.way)]))


def _sum_of_distances(own: np.ndarray, point: np.ndarray) -> float:
    return float(np.linalg.norm(own - point, axis=1).sum())


@settings(max_examples=15, deadline=None)
@given(st.integers(3, 6), st.sampled_from([2, 5]), st.integers(0, 999))
@example(4, 2, 332)  # a median that almost lies on a sample
def test_spatial_medians_have_the_smallest_sum_of_distances(shots: int, features: int, seed: int) -> None:
    """Smaller than what a general minimiser finds from the mean and from every sample, or at most 0.1 % larger."""
    support = clusters(2, shots, features, seed, spread=1.0)
    x, y = scaled(support)
    medians = spatial_medians(torch.from_numpy(x)[None], support.one_hot.mT)[0].numpy()
    assert_directions(SpatialMedian(), support, medians)
    for label in range(2):
        sum_of_distances = partial(_sum_of_distances, x[y == label])
        starts = (x[y == label].mean(0), *x[y == label])
        found = [minimize(sum_of_distances, start, method="Nelder-Mead", tol=1e-9).fun for start in starts]
        assert sum_of_distances(medians[label]) < 1.001 * min(found)


def test_an_outlier_moves_the_mean_but_not_the_median() -> None:
    support = clusters(2, 5, 6, seed=0, spread=0.1)
    x = support.x.clone()
    x[0, 0] = 50 * x[0, 9]  # far away, in the direction of the other class
    spoiled = support._replace(x=x)
    assert not MeanPrototypes().fit(spoiled).logits(support.x).argmax(-1).equal(support.y)
    assert SpatialMedian().fit(spoiled).logits(support.x).argmax(-1).equal(support.y)


@settings(max_examples=20, deadline=None)
@given(supports, st.sampled_from([0.0, 3.0, 10.0]))
def test_similarity_weights(support: Support, sharpness: float) -> None:
    x, y = scaled(support)
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    directions = []
    for label in range(support.way):
        (members,) = np.nonzero(y == label)
        similarity = [np.mean([unit[i] @ unit[j] for j in members if j != i]) for i in members]
        directions.append(np.exp(sharpness * np.array(similarity)) @ x[members])
    assert_directions(SimilarityWeighted(sharpness), support, np.stack(directions))


@settings(max_examples=20, deadline=None)
@given(supports, st.sampled_from([0.6, 0.8, 1.0]))
def test_rnnp_is_k_means_over_hybrids(support: Support, share: float) -> None:
    x, y = scaled(support)
    hybrids = np.stack(
        [share * x[i] + (1 - share) * x[j] for i in range(len(x)) for j in range(len(x)) if y[i] == y[j]]
    )
    prototypes = np.stack([x[y == label].mean(0) for label in range(support.way)])
    for _ in range(4):
        nearest = np.linalg.norm(hybrids[:, None] - prototypes, axis=-1).argmin(1)
        prototypes = np.stack(
            [
                hybrids[nearest == label].mean(0) if (nearest == label).any() else prototypes[label]
                for label in range(support.way)
            ]
        )
    assert_directions(Rnnp(share, rounds=4), support, prototypes)


def test_settings_that_make_no_sense_are_refused() -> None:
    for refused in (lambda: SimilarityWeighted(-1.0), lambda: Rnnp(share=0.2), lambda: Rnnp(rounds=0)):
        with pytest.raises(ConfigError, match="`head"):
            refused()


def test_a_class_without_samples_has_no_direction() -> None:
    support = clusters(3, 4, 6, seed=1)
    without = Support(support.x[:, :8], support.y[:, :8], 3)
    for head in (MeanPrototypes(), SpatialMedian(), SimilarityWeighted(), Rnnp()):
        fitted = head.fit(without)
        torch.testing.assert_close(fitted.logits(support.x)[..., 2], torch.zeros(1, 12).double())
