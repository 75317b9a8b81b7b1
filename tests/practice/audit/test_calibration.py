"""Probabilities that labels are wrong, on data drawn from the very model that the calibration assumes."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from scipy.special import softmax

from eigen_reptile.errors import ConfigError
from eigen_reptile.practice.audit.calibration import Calibration, evidence_against

WAY, COUNT = 4, 4000
UNCORRECTED = Calibration(slope=1.0, offset=0.0, sharpness_spread=10.0)


def judged(noise: float, sharpness: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Posteriors of a model with the wrong temperature, given labels, and which of these are wrong."""
    rng = np.random.default_rng(seed)
    logits = 2 * rng.normal(size=(COUNT, WAY))
    right = np.array([rng.choice(WAY, p=p) for p in softmax(np.exp(sharpness) * logits, axis=1)])
    wrong = rng.random(COUNT) < noise
    given = np.where(wrong, (right + rng.integers(1, WAY, COUNT)) % WAY, right)
    channel = np.where(np.eye(WAY)[given] > 0, 1 - 0.3, 0.3 / (WAY - 1))
    return softmax(logits + np.log(channel), axis=1), given, wrong


@pytest.mark.parametrize("noise", [0.05, 0.2, 0.4])
@pytest.mark.parametrize("sharpness", [-0.3, 0.0, 0.7])
def test_as_many_labels_are_wrong_as_expected(noise: float, sharpness: float) -> None:
    posterior, given, wrong = judged(noise, sharpness)
    found = UNCORRECTED.wrong(posterior, given, 0.3)
    for suspects in np.array_split(np.argsort(-found), 8):
        expected = found[suspects]
        deviation = np.sqrt((expected * (1 - expected)).sum()) + 0.02 * len(suspects)
        assert abs(expected.sum() - wrong[suspects].sum()) < 3 * deviation


def test_gradient_is_that_of_the_loss() -> None:
    posterior, given, _ = judged(0.2, 0.3)
    margins = evidence_against(posterior, given, 0.3)

    def loss(at: np.ndarray) -> float:
        return Calibration()._loss(at, margins)[0]

    for point in ([0.2, 0.1], [-0.5, 0.3], [1.0, 0.01]):
        gradient = Calibration()._loss(np.array(point), margins)[1]
        np.testing.assert_allclose(approx_fprime(np.array(point), loss), gradient, rtol=1e-3, atol=0.1)


def test_slope_and_offset_change_the_odds_and_not_the_order() -> None:
    posterior, given, _ = judged(0.2, 0.3)
    plain, changed = (
        Calibration(slope=slope, offset=offset).wrong(posterior, given, 0.3)
        for slope, offset in ((1.0, 0.0), (0.5, 1.0))
    )
    np.testing.assert_allclose(np.log(changed / (1 - changed)), 0.5 * np.log(plain / (1 - plain)) + 1, atol=1e-8)


def test_few_labels_stay_near_what_is_expected() -> None:
    """Two classes of two samples each, which say nothing."""
    posterior, given = np.full((4, 2), 0.5), np.array([0, 0, 1, 1])
    found = UNCORRECTED.wrong(posterior, given, 0.5)
    assert found == pytest.approx(np.full(4, found[0]))
    assert 0.02 < found[0] < 0.5


@pytest.mark.parametrize("settings", [{"slope": 0.0}, {"noise": 1.0}, {"strength": -1.0}, {"sharpness_spread": 0.0}])
def test_rejects_impossible_settings(settings: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match=next(iter(settings))):
        Calibration(**settings)
