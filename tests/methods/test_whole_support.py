"""`InnerConfig(batch=None)`: every inner step sees the whole support."""

from dataclasses import replace

import pytest
import torch

from eigen_reptile.data import CifarFs
from eigen_reptile.inner import InnerConfig
from eigen_reptile.methods import METHODS, Maml, MetaBatch, Method, Reptile
from eigen_reptile.nn import Conv4
from eigen_reptile.runtime.progress import no_progress
from eigen_reptile.tasks import TaskConfig
from eigen_reptile.training.config import Experiment
from eigen_reptile.training.data import TrainingData
from eigen_reptile.training.evaluate import EvalConfig
from eigen_reptile.training.presets import preset
from eigen_reptile.training.setup import set_up
from eigen_reptile.training.state import TrainState
from patterns import Patterns

WAY, SHOTS = 5, 5


def first_batch(exp: Experiment) -> MetaBatch:
    setup = set_up(exp, no_progress, "cpu")
    state = TrainState.fresh(setup)
    data = TrainingData(setup).at(0)
    return MetaBatch(setup.network, state.theta, state.inner_state, *data, exp.inner, torch.tensor(0))


def check_steps_see_the_whole_support(exp: Experiment) -> None:
    """Each inner step sees all 25 samples once, with the same bits as mini-batches of 25."""
    assert exp.inner.batch is None
    whole, explicit = (first_batch(replace(exp, inner=replace(exp.inner, batch=size))) for size in (None, WAY * SHOTS))
    steps, tasks = exp.inner.steps, exp.meta.batch
    assert whole.batches.chosen.shape == (1, tasks, steps, WAY * SHOTS)
    everything = torch.arange(WAY * SHOTS).expand_as(whole.batches.chosen)
    assert torch.equal(whole.batches.chosen.sort(-1).values, everything)
    for ours, theirs in zip(whole.batches, explicit.batches, strict=True):
        assert torch.equal(ours, theirs)
    with torch.no_grad():
        ours, theirs = (exp.method.meta_update(batch).direction for batch in (whole, explicit))
    assert torch.equal(ours, theirs)


@pytest.mark.parametrize("method", [Reptile(), Maml()], ids=["reptile", "maml"])
def test_every_step_sees_the_whole_support(method: Method) -> None:
    task = TaskConfig(WAY, SHOTS, queries=3 if method.requirements.queries else 0)
    inner, evaluation = InnerConfig(steps=3, batch=None, lr=0.1), EvalConfig(shots=(1,), queries=3)
    exp = Experiment(method, Patterns(), Conv4(4), task, inner=inner, evaluation=evaluation)
    check_steps_see_the_whole_support(exp)


def test_the_preset_of_maml_follows_the_number_of_shots() -> None:
    exp = preset(CifarFs(), METHODS["maml"])
    assert (exp.task.shots, exp.inner.batch, exp.evaluation.batch) == (1, None, None)
    exp = replace(
        exp,
        data=Patterns(side=16),
        model=Conv4(4),
        task=replace(exp.task, shots=SHOTS, queries=3),
        evaluation=replace(exp.evaluation, queries=3),
        meta=replace(exp.meta, batch=2),
    )
    check_steps_see_the_whole_support(exp)
