"""Linear classifiers, against scikit-learn and a general minimiser."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from scipy.optimize import minimize
from scipy.special import log_softmax
from sklearn.linear_model import LogisticRegression

from eigen_reptile.errors import ConfigError
from eigen_reptile.practice.heads import Logistic, RobustLinear, Support
from eigen_reptile.practice.heads.scaling import Scaling
from practice.heads.supports import clusters, with_wrong_labels


def with_ones(support: Support) -> np.ndarray:
    """Scaled features of the only task, and a feature that is always 1, whose weight is the bias."""
    x = Scaling.of(support)(support.x)[0].numpy()
    return np.concatenate([x, np.ones((len(x), 1))], axis=1)


@settings(max_examples=15, deadline=None)
@given(st.integers(3, 5), st.integers(1, 8), st.sampled_from([2, 40]), st.sampled_from([0.1, 1.0]), st.integers(0, 999))
def test_logistic_regression_is_scikit_learns(way: int, shots: int, features: int, ridge: float, seed: int) -> None:
    support = clusters(way, shots, features, seed, spread=1.0)
    x = with_ones(support)
    expected = LogisticRegression(C=1 / ridge, fit_intercept=False, tol=1e-12, max_iter=10_000)
    logits = expected.fit(x, support.y[0].numpy()).decision_function(x)
    found = Logistic(ridge).fit(support).logits(support.x)[0].numpy()
    np.testing.assert_allclose(found, logits, atol=1e-5)


def test_logistic_regression_of_many_samples() -> None:
    support = with_wrong_labels(clusters(3, 200, 5, seed=3, spread=1.0), 40)
    x = with_ones(support)
    expected = LogisticRegression(fit_intercept=False, tol=1e-12, max_iter=10_000).fit(x, support.y[0].numpy())
    found = Logistic().fit(support).logits(support.x)[0].numpy()
    np.testing.assert_allclose(found, expected.decision_function(x), atol=1e-4)


@settings(max_examples=10, deadline=None)
@given(st.sampled_from([0.3, 0.7, 1.0]), st.integers(0, 999))
def test_robust_loss_is_at_a_minimum(q: float, seed: int) -> None:
    """The general minimiser starts at the weights found, because this loss may have several minima, and stays there."""
    support, ridge = with_wrong_labels(clusters(3, 5, 4, seed, spread=1.0), 1), 0.5
    x, y = with_ones(support), support.y[0].numpy()

    def objective(flat: np.ndarray) -> float:
        weights = flat.reshape(5, 3)
        log_p = log_softmax(x @ weights, axis=1)[np.arange(len(y)), y]
        return float(((1 - np.exp(q * log_p)) / q).sum() + ridge / 2 * (weights**2).sum())

    logits = RobustLinear(q, ridge).fit(support).logits(support.x)[0].numpy()
    weights, *_ = np.linalg.lstsq(x, logits, rcond=None)
    np.testing.assert_allclose(x @ weights, logits, atol=1e-9)
    better = minimize(objective, weights.ravel(), method="BFGS", options={"gtol": 1e-9})
    assert better.fun >= objective(weights.ravel()) - 1e-8


def test_a_small_q_is_logistic_regression() -> None:
    support = clusters(3, 5, 10, seed=2, spread=1.0)
    torch.testing.assert_close(
        RobustLinear(q=1e-6, ridge=1.0).fit(support).logits(support.x),
        Logistic(1.0).fit(support).logits(support.x),
        atol=1e-4, rtol=0,
    )  # fmt: skip


def test_many_samples_with_wrong_labels_need_the_robust_loss() -> None:
    """A third of one class with the label of another: the robust loss gives these samples up."""
    clean = clusters(2, 300, 2, seed=5, spread=0.5)
    y = clean.y.clone()
    y[0, :120] = 1
    queries = clean.x, clean.y
    right = {
        type(head).__name__: float(
            (head.fit(clean._replace(y=y)).logits(queries[0]).argmax(-1) == queries[1]).double().mean()
        )
        for head in (Logistic(), RobustLinear(q=1.0))
    }
    assert right["RobustLinear"] > right["Logistic"]


def test_settings_that_make_no_sense_are_refused() -> None:
    for refused in (lambda: Logistic(0.0), lambda: RobustLinear(q=0.0), lambda: RobustLinear(ridge=-1.0)):
        with pytest.raises(ConfigError, match="`head"):
            refused()
