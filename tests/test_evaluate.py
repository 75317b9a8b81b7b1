"""Evaluation against a slow loop, and its fixed lists of tasks."""

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn

from eigen_reptile import evaluate as module
from eigen_reptile.config import Experiment
from eigen_reptile.evaluate import EvalConfig, evaluate, fit_one, interval95
from eigen_reptile.experiment import build_learner
from eigen_reptile.streams import stream
from eigen_reptile.tasks import sample_tasks
from eigen_reptile.train import TrainState

CONFIG = EvalConfig(tasks=5, shots=4, after=(0, 2, 5))


def setting() -> tuple[Experiment, TrainState]:
    exp = Experiment(evaluation=CONFIG)
    return exp, TrainState.fresh(build_learner(exp), [3, 4])


def errors(tasks: int | None = None, split: module.Split = "validation") -> np.ndarray:
    exp, state = setting()
    return evaluate(build_learner(exp), exp.data, state.theta, state.memory, exp.inner, CONFIG, split, tasks).error


def test_error_is_that_of_a_plain_loop() -> None:
    exp, state = setting()
    found = errors()
    for lane in range(2):
        for number in range(5):
            task = sample_tasks(exp.data, 4, 1, [stream(0, "validation", number)])
            net = exp.model.build(1, 1)
            nn.utils.vector_to_parameters(state.theta[lane].clone(), net.parameters())
            optimizer = torch.optim.SGD(net.parameters(), lr=exp.inner.lr)
            for step in range(6):
                if step in CONFIG.after:
                    expected = nn.functional.mse_loss(net(task.query_x[0, 0]), task.query_y[0, 0]).item()
                    assert found[lane, number, CONFIG.after.index(step)] == pytest.approx(expected, rel=1e-4)
                optimizer.zero_grad()
                nn.functional.mse_loss(net(task.x[0, 0]), task.y[0, 0]).backward()
                optimizer.step()


def test_a_longer_list_begins_with_the_shorter() -> None:
    np.testing.assert_allclose(errors(5)[:, :3], errors(3), rtol=1e-5)


def test_test_tasks_are_not_validation_tasks() -> None:
    assert not np.isin(errors(split="test"), errors()).any()


def test_taking_few_tasks_at_once_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    at_once = errors()
    monkeypatch.setattr(module, "LANE_TASKS_AT_ONCE", 4)
    np.testing.assert_allclose(errors(), at_once, rtol=1e-5)


def test_evaluation_leaves_the_parameters_alone() -> None:
    exp, state = setting()
    before = state.theta.clone()
    fit = fit_one(build_learner(exp), exp.data, state.theta, state.memory, exp.inner, CONFIG)
    assert torch.equal(state.theta, before)
    assert fit.curves.shape == (2, 3, 50)
    assert fit.support.shape == (2, 4)
    assert np.interp(fit.support[0], fit.x, fit.truth) == pytest.approx(fit.support[1], abs=1e-4)


def test_interval_is_students() -> None:
    values = [3.0, 4.5, 5.0, 7.25]
    mean, half = interval95(values)
    low, high = stats.t.interval(0.95, 3, loc=np.mean(values), scale=stats.sem(values))
    assert (mean - half, mean + half) == pytest.approx((low, high))
    assert interval95([2.0]) == (2.0, float("inf"))
