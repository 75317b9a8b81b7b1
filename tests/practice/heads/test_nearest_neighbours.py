"""Nearest neighbours, against a plain loop and scikit-learn."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from sklearn.neighbors import KNeighborsClassifier

from eigen_reptile.errors import ConfigError
from eigen_reptile.practice.heads import NearestNeighbours
from eigen_reptile.practice.heads.scaling import Scaling
from practice.heads.supports import clusters


@settings(max_examples=20, deadline=None)
@given(st.integers(2, 4), st.integers(1, 6), st.integers(1, 9), st.sampled_from([0.0, 2.0, 14.0]), st.integers(0, 999))
def test_votes_are_those_of_scikit_learn(way: int, shots: int, k: int, temperature: float, seed: int) -> None:
    support, queries = clusters(way, shots, 12, seed, spread=1.5), clusters(way, 4, 12, seed + 1, spread=1.5).x
    scaling = Scaling.of(support)
    k = min(k, way * shots)
    expected = KNeighborsClassifier(k, weights=lambda distance: np.exp(-temperature * distance), metric="cosine")
    expected.fit(scaling(support.x)[0].numpy(), support.y[0].numpy())
    found = NearestNeighbours(k, temperature).fit(support).logits(queries)[0].softmax(-1)
    np.testing.assert_allclose(found, expected.predict_proba(scaling(queries)[0].numpy()), atol=5e-3)


def test_samples_as_near_as_the_last_one_vote_too() -> None:
    """So the order of samples decides nothing, even if two of them are equal and have different labels."""
    support = clusters(2, 2, 6, seed=0)
    twins = support._replace(x=support.x[:, [0, 1, 0, 3]])
    logits = NearestNeighbours(k=1).fit(twins).logits(twins.x[:, :1])[0, 0]
    assert float(logits[0]) == pytest.approx(float(logits[1]))


def test_settings_that_make_no_sense_are_refused() -> None:
    for k, temperature in ((0, 1.0), (1, -1.0)):
        with pytest.raises(ConfigError, match="`head"):
            NearestNeighbours(k, temperature)
