"""TAML: both objectives by their formulas, and weights that depend on all tasks."""

from dataclasses import replace
from typing import Literal

import numpy as np
import pytest
import torch
from torch import Tensor

from eigen_reptile.data import Sine
from eigen_reptile.methods import EntropyReduction, LossInequality, Maml, MetaUpdate
from eigen_reptile.methods.gradient.gradient_method import META_LOSS
from eigen_reptile.methods.gradient.task_agnostic import FIRST, SECOND, Measure, inequality
from eigen_reptile.runtime.progress import no_progress
from eigen_reptile.tasks import Batches, Tasks
from eigen_reptile.training.config import Experiment
from eigen_reptile.training.presets import preset
from eigen_reptile.training.setup import set_up
from meta_batches import adapted, image_experiment, meta_batch_of, meta_loss

every_measure = pytest.mark.parametrize("measure", ["theil", "atkinson", "log-variance"])


@pytest.mark.parametrize("samples", ["queries", "support"])
def test_both_objectives_by_their_formulas(samples: Literal["queries", "support"]) -> None:
    """J = L(after) + lambda (H(after) - H(before)), or + lambda times Theil's index of the losses before."""
    entropic = Maml(objective=EntropyReduction(samples, strength=0.3))
    unequal = Maml(objective=LossInequality("theil", samples, strength=0.3))
    batch = meta_batch_of(image_experiment(entropic))
    tasks, theta, after = batch.tasks, batch.theta[0], adapted(Maml(), batch)
    x, y = (tasks.query_x, tasks.query_y) if samples == "queries" else (tasks.x, tasks.y)

    def probabilities(theta: Tensor, images: Tensor) -> np.ndarray:
        return batch.network.output(theta, images).softmax(-1).numpy()

    expected, before = [], []
    for task in range(3):
        predicted, labels = probabilities(after[0, task], tasks.query_x[0, task]), tasks.query_y[0, task].tolist()
        expected.append(-np.mean([np.log(row[label]) for row, label in zip(predicted, labels, strict=True)]))
        old, new = probabilities(theta, x[0, task]), probabilities(after[0, task], x[0, task])
        before.append(-np.mean([np.log(row[label]) for row, label in zip(old, y[0, task].tolist(), strict=True)]))
        expected[-1] += 0.3 * ((old * np.log(old)).sum(1) - (new * np.log(new)).sum(1)).mean()
    np.testing.assert_allclose(entropic.meta_losses(batch).terms[META_LOSS][0], expected)
    shares = np.array(before) / np.mean(before)
    plain = float(Maml().meta_losses(batch).terms[META_LOSS][0].mean())
    assert meta_loss(unequal, batch) == pytest.approx(plain + 0.3 * (shares * np.log(shares)).mean())


@every_measure
def test_the_weights_come_from_the_means_over_all_tasks(measure: Measure) -> None:
    """Averaging the updates of unequal parts does not average their weights: these follow from the averaged losses."""
    method = Maml(objective=LossInequality(measure, strength=0.5))
    batch = meta_batch_of(image_experiment(method), tasks=4)

    def update_of(chosen: slice) -> MetaUpdate:
        tasks, batches = Tasks(*(part[:, chosen] for part in batch.tasks)), batch.batches
        return method.meta_update(batch._replace(tasks=tasks, batches=Batches(*(part[:, chosen] for part in batches))))

    with torch.no_grad():
        parts = [update_of(slice(0, 2)), update_of(slice(2, 4))]
    averaged = parts[0].plus(parts[1]).over(2)
    losses = batch.network.losses(batch.adaptation.network_theta, batch.tasks.x, batch.tasks.y).mean(-1)[0]
    log = losses.log()
    first, second = {
        "theil": (losses, losses * log),
        "atkinson": (losses, log),
        "log-variance": (log, log.square()),
    }[measure]
    torch.testing.assert_close(averaged.means[FIRST], first.mean()[None])
    torch.testing.assert_close(averaged.means[SECOND], second.mean()[None])
    slopes = {
        "theil": (-second.mean() / first.mean() ** 2 - 1 / first.mean(), 1 / first.mean()),
        "atkinson": (second.mean().exp() / first.mean() ** 2, -second.mean().exp() / first.mean()),
        "log-variance": (-2 * first.mean(), torch.ones(())),
    }[measure]
    expected = averaged.terms[META_LOSS]
    for name, slope in zip((FIRST, SECOND), slopes, strict=True):
        expected = expected + 0.5 * slope * averaged.terms[name]
    torch.testing.assert_close(averaged.direction, expected)
    assert not torch.allclose(averaged.direction, (parts[0].direction + parts[1].direction) / 2, rtol=1e-3)


@every_measure
def test_inequality_of_losses(measure: Measure) -> None:
    losses = np.array([0.5, 1.0, 2.5])
    mu = losses.mean()
    expected = {
        "theil": (losses / mu * np.log(losses / mu)).mean(),
        "atkinson": 1 - losses.prod() ** (1 / 3) / mu,
        "log-variance": np.log(losses).var(),
    }[measure]

    def measured(values: np.ndarray) -> float:
        log = np.log(values)
        means = {
            "theil": (values.mean(), (values * log).mean()),
            "atkinson": (values.mean(), log.mean()),
            "log-variance": (log.mean(), (log**2).mean()),
        }[measure]
        first, second = (torch.tensor([mean]) for mean in means)
        return float(inequality(measure, first, second))

    assert measured(losses) == pytest.approx(expected)
    assert measured(np.full(4, 1.7)) == pytest.approx(0, abs=1e-12)


def test_a_meta_batch_must_have_tasks_to_compare() -> None:
    unequal, entropic = Maml(objective=LossInequality("theil")), Maml(objective=EntropyReduction())
    assert preset(Sine(), unequal).meta.batch > 1
    exp = image_experiment(unequal)
    assert exp.meta.batch == 1
    with pytest.raises(ValueError, match=r"`meta\.batch` must be at least 2"):
        set_up(exp, no_progress, "cpu")
    set_up(replace(exp, method=entropic), no_progress, "cpu")


def test_entropy_reduction_refuses_regression() -> None:
    with pytest.raises(ValueError, match="can only classify"):
        Experiment(Maml(objective=EntropyReduction()), Sine())


@pytest.mark.parametrize("objective", [EntropyReduction, LossInequality])
def test_a_negative_strength_is_refused(objective: type[EntropyReduction] | type[LossInequality]) -> None:
    with pytest.raises(ValueError, match=r"strength.* not -1"):
        objective(strength=-1.0)
