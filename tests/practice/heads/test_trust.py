"""Trust in labels, compared with models that are really fitted without the sample."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch.nn.functional import normalize

from eigen_reptile.practice.heads import MeanPrototypes, Support, Trust
from eigen_reptile.practice.heads.scaling import Scaling
from eigen_reptile.practice.heads.trust import TEMPERATURE_FACTORS
from practice.heads.supports import clusters


def slow_posterior(support: Support, head: Trust) -> tuple[np.ndarray, float]:
    """The same rule, one sample after the other, each with a regression that is fitted without it."""
    x = Scaling.of(support.double())(support.double().x)[0].numpy()
    given = np.eye(support.way)[support.y[0].numpy()]
    counts = given.sum(0)
    soft, noise = given.copy(), head.noise
    for _ in range(head.rounds):
        cosines, channels = np.zeros_like(soft), np.where(given > 0, 1 - noise, noise / (support.way - 1))
        judged = counts[given.argmax(1)] > 1
        for i in range(len(x)):
            others = np.delete(np.arange(len(x)), i)
            gram = x[others].T @ x[others] + head.ridge * np.eye(x.shape[1])
            w = np.linalg.solve(gram, x[others].T @ soft[others])
            cosines[i] = x[i] @ w / np.linalg.norm(w, axis=0)

        def predictions(temperature: float, cosines: np.ndarray = cosines) -> np.ndarray:
            exponentials: np.ndarray = np.exp(temperature * cosines)
            return np.asarray(exponentials / exponentials.sum(1, keepdims=True))

        def score(factor: float, channels: np.ndarray = channels, judged: np.ndarray = judged) -> float:
            likelihood = np.log((predictions(factor * head.temperature) * channels).sum(1))
            return float(likelihood[judged].sum() - head.temperature_strength * np.log(factor) ** 2)

        weights = predictions(head.temperature * max(TEMPERATURE_FACTORS, key=score)) * channels
        soft = np.where(judged[:, None], weights / weights.sum(1, keepdims=True), given)
        wrong = (1 - (soft * given).sum(1)).sum()
        noise = (wrong + head.noise_strength * head.noise) / (judged.sum() + head.noise_strength)
    return soft, float(noise)


@settings(max_examples=20, deadline=None)
@given(st.integers(2, 4), st.integers(2, 6), st.sampled_from([3, 40]), st.integers(0, 999))
def test_posterior_is_that_of_regressions_fitted_without_the_sample(
    way: int, shots: int, features: int, seed: int
) -> None:
    """With fewer and with more samples than features."""
    support, head = clusters(way, shots, features, seed, spread=1.0), Trust(rounds=3)
    posterior, noise = slow_posterior(support, head)
    found = head.judge(support)
    np.testing.assert_allclose(found.posterior[0], posterior, rtol=1e-6, atol=1e-9)
    assert float(found.noise) == pytest.approx(noise)


def test_finds_wrong_labels() -> None:
    support = clusters(5, 5, 64, seed=0)
    wrong = torch.tensor([0, 7, 13])
    y = support.y.clone()
    y[0, wrong] = (y[0, wrong] + 1) % 5
    found = Trust().judge(support._replace(y=y))
    assert set(found.trust[0].argsort()[:3].tolist()) == set(wrong.tolist())
    assert torch.equal(found.posterior[0].argmax(-1), support.y[0])


def test_survives_two_wrong_labels_of_five() -> None:
    """Where mean prototypes do not."""
    support, queries = clusters(5, 5, 20, seed=3, spread=1.2), clusters(5, 5, 20, seed=3, spread=0.0)
    y = support.y.clone().view(5, 5)
    for label in range(5):
        y[label, :2] = torch.tensor([(label + 1) % 5, (label + 1) % 5])
    noisy = support._replace(y=y.view(1, -1))
    right = {
        type(head).__name__: float((head.fit(noisy).logits(queries.x).argmax(-1) == queries.y).double().mean())
        for head in (Trust(), MeanPrototypes())
    }
    assert right["Trust"] == 1 > right["MeanPrototypes"]


def test_a_class_with_one_sample_cannot_be_judged() -> None:
    support = clusters(3, 4, 16, seed=1)
    x, y = support.x[:, :9], support.y[:, :9]  # one sample of the last class
    found = Trust().judge(Support(x, y, 3))
    assert found.trust[0, :8].isfinite().all()
    assert found.trust[0, 8].isnan()
    assert found.posterior[0, 8].isnan().all()
    assert Trust().fit(Support(x, y, 3)).logits(support.x).argmax(-1).equal(support.y)


def test_tasks_do_not_influence_each_other() -> None:
    first, second = clusters(3, 4, 10, seed=1), clusters(3, 4, 10, seed=2)
    both = Support(torch.cat([first.x, second.x]), torch.cat([first.y, second.y]), 3)
    together = Trust().fit(both).logits(both.x)
    for number, one in enumerate((first, second)):
        torch.testing.assert_close(together[number], Trust().fit(one).logits(one.x)[0])


def test_many_samples_make_it_a_linear_classifier() -> None:
    """Classes that means cannot separate, because all of them vary most along the same axis."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(2), 300)
    x = np.stack([rng.normal(scale=10, size=600), np.where(y, 1.0, -1.0) + 0.1 * rng.normal(size=600)], axis=1)
    x[:, 0] += np.where(y, 2.0, -2.0)
    support = Support(torch.tensor(x)[None], torch.tensor(y)[None], 2)
    accuracy = {
        type(head).__name__: float((head.fit(support).logits(support.x).argmax(-1) == support.y).double().mean())
        for head in (Trust(ridge=1e-3), MeanPrototypes())
    }
    assert accuracy["Trust"] > 0.99 > 0.8 > accuracy["MeanPrototypes"]


def test_directions_are_the_weights_of_ridge_regression() -> None:
    support = clusters(3, 5, 8, seed=5)
    head = Trust(rounds=1)
    fitted = head.fit(support)
    x = Scaling.of(support)(support.x)[0]
    found = head.judge(support)
    w = torch.linalg.solve(x.mT @ x + head.ridge * torch.eye(8), x.mT @ found.posterior[0])
    expected = found.temperature * x @ normalize(w, dim=0)
    torch.testing.assert_close(fitted.logits(support.x)[0], expected)
