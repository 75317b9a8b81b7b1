"""Probabilities that labels are wrong: the formula written out, the order, and the limits."""

import numpy as np
import pytest

from eigen_reptile.errors import ConfigError
from eigen_reptile.practice.audit.calibration import Calibration, log_odds

GIVEN = np.array([0, 1, 2, 0])
POSTERIOR = np.array([[0.5, 0.3, 0.2], [0.6, 0.1, 0.3], [0.01, 0.01, 0.98], [0.9, 0.05, 0.05]])


def many(per_class: int) -> tuple[np.ndarray, np.ndarray]:
    """The same three classes with so many samples each."""
    return np.tile(POSTERIOR[:3], (per_class, 1)), np.tile(GIVEN[:3], per_class)


@pytest.mark.parametrize("per_class", [10, 50, 300])
def test_log_odds_are_a_linear_function_of_those_of_trust(per_class: int) -> None:
    own = Calibration(0.8, 0.1, 1.5, 0.6, 0.4)
    posterior, given = many(per_class)
    found = own.wrong(posterior, given, 0.2)
    trust = posterior[np.arange(len(given)), given]
    size = np.log(per_class / 50)
    expected = (0.8 + 0.1 * size) * np.log((1 - trust) / trust) + 1.5 + 0.6 * size + 0.4 * np.log(0.2 / 0.8)
    np.testing.assert_allclose(np.log(found / (1 - found)), expected, atol=1e-9)


def test_numbers_of_samples_beyond_those_of_the_fit_count_as_the_nearest_ones() -> None:
    for beyond, nearest in ((2, 10), (900, 300)):
        found, same = (Calibration().wrong(*many(size), 0.1)[:3] for size in (beyond, nearest))
        np.testing.assert_allclose(found, same)


def test_the_order_is_that_of_trust_even_where_it_is_next_to_nothing() -> None:
    small = np.array([1e-12, 1e-20, 1e-30])
    posterior = np.stack([small, 1 - small], axis=1)
    odds = log_odds(posterior, np.zeros(3, dtype=np.int64))
    assert (np.diff(odds) > 0).all()
    assert np.isfinite(Calibration().wrong(np.array([[0.0, 1.0], [1.0, 0.0]]), np.array([0, 0]), 0.1)).all()


def test_rejects_a_slope_that_would_reverse_the_order() -> None:
    for settings in ({"slope": 0.0, "slope_by_size": 0.0}, {"slope": 0.1, "slope_by_size": 0.1}):
        with pytest.raises(ConfigError, match="slope"):
            Calibration(**settings)
