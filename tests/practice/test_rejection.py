"""Rejection: the stated false-alarm rate, and the p-value written out."""

import numpy as np
import pytest
import torch
from scipy.stats import binom

from eigen_reptile.practice.rejection import Rejection


def test_the_p_value_is_that_of_full_conformal_prediction() -> None:
    """Every score of the m + 1 samples is computed among all of them, and the ranks are counted."""
    generator = torch.Generator().manual_seed(0)
    support, x = torch.randn(20, 3, generator=generator).double(), torch.randn(15, 3, generator=generator).double()
    found = Rejection.of(support).p_value(x)
    for new, p in zip(x, found, strict=True):
        distances = torch.cdist(torch.cat([support, new[None]]), torch.cat([support, new[None]]))
        scores = distances.fill_diagonal_(torch.inf).amin(1)
        assert p == pytest.approx(float((scores >= scores[-1]).double().mean()))


@pytest.mark.parametrize("m", [9, 25])
@pytest.mark.parametrize("rate", [0.1, 0.3])
def test_no_more_false_alarms_than_stated(m: int, rate: float) -> None:
    """Over supports of two clusters, drawn anew each time; within the 99.9 % range of a binomial."""
    draws, rng = 2000, np.random.default_rng(m)
    alarms = 0
    for _ in range(draws):
        x = torch.tensor(rng.normal(size=(m + 1, 4)) + 3 * rng.integers(0, 2, size=(m + 1, 1)))
        alarms += int(Rejection.of(x[:m]).p_value(x[m:])[0] <= rate)
    attained = int(rate * (m + 1)) / (m + 1)  # the largest possible p-value that is at most the rate
    assert binom.ppf(0.0005, draws, attained) <= alarms <= binom.ppf(0.9995, draws, attained)


def test_chunks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.randn(30, 5, generator=torch.Generator().manual_seed(1)).double()
    whole = Rejection.of(x).nearest
    monkeypatch.setattr("eigen_reptile.practice.rejection.CHUNK", 70)
    assert torch.allclose(Rejection.of(x).nearest, whole)
