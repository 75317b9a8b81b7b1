"""Evaluation on curves against a plain loop over tasks, its fixed lists of tasks, protocols and intervals."""

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn

from eigen_reptile.data import TaskShape
from eigen_reptile.data.sampling import sample_tasks
from eigen_reptile.runtime.progress import no_progress
from eigen_reptile.runtime.rng import Purpose, generator_at
from eigen_reptile.training import evaluate as module
from eigen_reptile.training.config import Experiment
from eigen_reptile.training.evaluate import (
    EvalConfig,
    Initialisation,
    evaluate,
    interval95,
)
from eigen_reptile.training.illustrate import fit_curves
from eigen_reptile.training.setup import Setup, set_up
from eigen_reptile.training.state import TrainState

IGNORE = no_progress("", 0)

CONFIG = EvalConfig(tasks=5, shots=(4,), inner_steps=(0, 2, 5))
CURVE = TaskShape(1, 4, 15)


def sine_setup() -> tuple[Setup, Initialisation]:
    setup = set_up(Experiment(evaluation=CONFIG, seeds=(3, 4)), no_progress, "cpu")
    state = TrainState.fresh(setup)
    return setup, Initialisation(state.theta, state.inner_state, setup.exp.inner, setup.exp.method)


def errors(count: int = 5, purpose: Purpose = "validation") -> np.ndarray:
    setup, initialisation = sine_setup()
    scores = evaluate(setup.network, setup.banks.test, initialisation, CONFIG, purpose, CURVE, range(count), (), IGNORE)
    assert scores.columns == ("0 steps", "2 steps", "5 steps")
    return scores.values


def test_error_is_that_of_a_plain_loop() -> None:
    setup, initialisation = sine_setup()
    exp, found = setup.exp, errors()
    for replica in range(2):
        for number in range(5):
            task = sample_tasks(setup.banks.test, CURVE, 1, [generator_at(0, "validation", number)])
            net = exp.model.build((1,), 1)
            nn.utils.vector_to_parameters(initialisation.theta[replica].clone(), net.parameters())
            optimizer = torch.optim.SGD(net.parameters(), lr=exp.inner.lr)
            for step in range(6):
                if step in CONFIG.inner_steps:
                    expected = nn.functional.mse_loss(net(task.query_x[0, 0]), task.query_y[0, 0]).item()
                    assert found[replica, number, CONFIG.inner_steps.index(step)] == pytest.approx(expected, rel=1e-4)
                optimizer.zero_grad()
                nn.functional.mse_loss(net(task.x[0, 0]), task.y[0, 0]).backward()
                optimizer.step()


def test_a_longer_list_of_regression_tasks_begins_with_the_shorter_one() -> None:
    np.testing.assert_allclose(errors(5)[:, :3], errors(3), rtol=1e-5)


def test_test_tasks_are_not_validation_tasks() -> None:
    assert not np.isin(errors(purpose="test"), errors()).any()


def test_evaluating_few_tasks_at_once_gives_the_same_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    at_once = errors()
    monkeypatch.setattr(module, "BYTES_AT_ONCE", 300_000)
    np.testing.assert_allclose(errors(), at_once, rtol=1e-5)


def test_evaluation_does_not_modify_the_parameters() -> None:
    setup, initialisation = sine_setup()
    before = initialisation.theta.clone()
    fit = fit_curves(setup.network, setup.banks.validation, initialisation, CONFIG, CURVE)
    assert torch.equal(initialisation.theta, before)
    assert fit.curves.shape == (2, 3, 50)
    assert fit.support.shape == (2, 4)
    assert np.interp(fit.support[0], fit.x, fit.truth) == pytest.approx(fit.support[1], abs=1e-4)


def test_the_protocols_change_only_what_they_define() -> None:
    ours = EvalConfig(tasks=200, shots=(1, 5), queries=7, inner_steps=(30,), batch=3, every=123, seed=9)
    authors, field = ours.authors_protocol(), ours.field_protocol()
    assert (authors.tasks, authors.queries, authors.inner_steps, authors.batch) == (10_000, 1, (50,), 15)
    assert (field.tasks, field.queries) == (600, 15)
    for other in (authors, field):
        assert (other.shots, other.every, other.seed) == ((1, 5), 123, 9)


def test_the_interval_is_students() -> None:
    values = [3.0, 4.5, 5.0, 7.25]
    mean, half = interval95(values)
    low, high = stats.t.interval(0.95, 3, loc=np.mean(values), scale=stats.sem(values))
    assert (mean - half, mean + half) == pytest.approx((low, high))
    assert interval95([2.0]) == (2.0, float("inf"))
