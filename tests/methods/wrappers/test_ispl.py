"""Introspective self-paced learning: which samples it discards."""

import math
from dataclasses import dataclass, replace
from typing import Any, final

import pytest
import torch
from torch import Tensor

from eigen_reptile.inner import InnerConfig
from eigen_reptile.methods import Ispl, SelfPaced
from eigen_reptile.nn import CrossEntropy, SampleLoss
from noisy_clusters import INNER, NETWORK, batch_of_clusters, clusters, selected


@pytest.mark.parametrize("wrong", [0.1, 0.2])
@pytest.mark.parametrize(
    "inner",
    [INNER, InnerConfig(), replace(INNER, lr=0.02), *(replace(INNER, optimizer="adam", lr=lr) for lr in (0.005, 0.01))],
    ids=str,
)
def test_wrong_labels_are_found(inner: InnerConfig, wrong: float) -> None:
    stats = [selected(Ispl(), clusters(wrong, seed), seed, inner=inner).stats for seed in range(10)]
    kept, all_wrong, found = (sum(float(s[name]) for s in stats) for name in ("kept", "wrong", "wrong_discarded"))
    assert found / (10 - kept) > 0.9
    assert found / all_wrong > 0.8


@pytest.mark.parametrize("lr", [1e-4, 0.002])
def test_priors_that_could_not_learn_much_discard_few_clean_samples(lr: float) -> None:
    inner = replace(INNER, optimizer="adam", lr=lr)
    stats = [selected(Ispl(), clusters(0.2, seed), seed, inner=inner).stats for seed in range(10)]
    kept, found = (sum(float(s[name]) for s in stats) for name in ("kept", "wrong_discarded"))
    assert found / (10 - kept) > 0.9


def test_a_loss_counts_only_where_it_has_grown() -> None:
    """With a threshold that every loss exceeds, exactly the samples whose loss has grown are discarded."""
    tasks = clusters(0.2, 3)
    ispl = Ispl(gamma=1e-9)
    batch = batch_of_clusters(ispl, tasks, 3)
    candidates = batch.batches.chosen.flatten()
    half, size = len(candidates) // 2, batch.batches.chosen.shape[3]
    has_grown = torch.zeros(len(candidates), dtype=torch.bool)
    for fitted, judged in ((slice(half), slice(half, None)), (slice(half, None), slice(half))):
        theta = batch.theta[0]
        for step in range(INNER.steps + ispl.extra_steps):
            places = [(step * size + i) % half for i in range(size)]
            chosen = candidates[fitted][places]
            x, y = tasks.x[:, :, chosen], tasks.y[:, :, chosen]
            theta = theta - INNER.lr * NETWORK.gradient(theta[None, None], x, y, torch.ones(1, 1, size))[0, 0]
        x, y = tasks.x[0, 0, candidates[judged]], tasks.y[0, 0, candidates[judged]]
        before, after = (CrossEntropy()(NETWORK.output(point, x), y) for point in (batch.theta[0], theta))
        has_grown[judged] = after > before
    with torch.no_grad():
        found = ispl.select(batch)
    needed = INNER.steps * size
    assert 0 < has_grown.sum() <= len(has_grown) - needed
    assert found.batches.chosen.flatten().tolist() == candidates[~has_grown][:needed].tolist()


def test_if_everything_looks_wrong_a_mini_batch_is_kept() -> None:
    picked = selected(Ispl(gamma=1e-9, grown=False), clusters(0.2, 0), 0)
    assert float(picked.stats["kept"]) == pytest.approx(10 / 120)
    assert picked.batches.chosen.shape == (1, 1, 7, 10)
    assert len(set(picked.batches.chosen.flatten().tolist())) == 10


@final
@dataclass(frozen=True)
class RecordedLoss(SampleLoss):
    """The cross-entropy, which records the losses that are not for a gradient."""

    recorded: list[Tensor]

    def __call__(self, output: Tensor, y: Tensor) -> Tensor:
        losses = CrossEntropy()(output, y)
        if not torch.is_grad_enabled():
            self.recorded.append(losses[0, 0])
        return losses


def test_no_prior_judges_what_it_was_fitted_to() -> None:
    """With one label flipped, the losses of the other half change, and in its own half only its own loss."""
    ispl, tasks = Ispl(grown=False), clusters(0.0, 0)

    def judgements(flipped: int | None) -> list[Tensor]:
        """The losses of both priors for the half of the candidates that each has not seen."""
        loss = RecordedLoss([])
        batch = batch_of_clusters(ispl, tasks, 0)
        if flipped is not None:
            batch.batches.y.flatten(2)[0, 0, flipped] ^= 1
        with torch.no_grad():
            ispl.select(batch._replace(network=NETWORK.with_loss(loss)))
        return loss.recorded

    before, after = judgements(None), judgements(3)
    assert [len(losses) for losses in before] == [60, 60]
    assert not torch.equal(before[0], after[0])  # the first prior was fitted to it, and judges the second half
    same = before[1] == after[1]
    assert same.sum() == 59  # the second never saw it: only its loss for the flipped label itself is new
    assert not same[3]


def test_gamma_decreases_in_stairs_to_its_floor() -> None:
    ispl = Ispl.paper()
    at = {step: float(ispl.gamma_at(torch.tensor(step))) for step in (0, 999, 1000, 2500, 100_000)}
    expected = {0: 10.0, 999: 10.0, 1000: 9.4, 2500: 8.8, 100_000: math.log(5)}
    assert at == pytest.approx(expected)


def test_the_threshold_of_self_paced_learning_grows_in_stairs() -> None:
    selector = SelfPaced(start=1.0, growth=2.0, every=10)
    assert [float(selector.threshold(torch.tensor(step))) for step in (0, 9, 10, 25)] == [1.0, 1.0, 2.0, 4.0]


@pytest.mark.parametrize(
    "settings", [{"priors": 0}, {"gamma": 0.0}, {"decay": -1.0}, {"every": 0}, {"priors": 1}, {"sharing": "shared"}]
)
def test_impossible_settings_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"must be"):
        Ispl(**settings)
