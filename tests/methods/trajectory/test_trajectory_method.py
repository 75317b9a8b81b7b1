"""What all methods that look only at trajectories have in common."""

from dataclasses import replace
from typing import Literal

import pytest
import torch

from eigen_reptile.inner import InnerState
from eigen_reptile.methods import METHODS, Foml, MetaBatch, Reptile, TrajectoryMethod
from eigen_reptile.runtime.progress import no_progress
from eigen_reptile.tasks import each_task
from eigen_reptile.training.config import Experiment, MetaConfig
from eigen_reptile.training.data import TrainingData
from eigen_reptile.training.setup import set_up
from eigen_reptile.training.state import TrainState
from meta_batches import mean_direction, random_walks

TRAJECTORY_METHODS = {name: method for name, method in METHODS.items() if isinstance(method, TrajectoryMethod)}
every_trajectory_method = pytest.mark.parametrize("method", TRAJECTORY_METHODS.values(), ids=TRAJECTORY_METHODS.keys())


@every_trajectory_method
def test_a_replica_that_is_not_finite_disturbs_no_other(method: TrajectoryMethod) -> None:
    W = random_walks()
    spoilt = W.clone()
    spoilt[0, 1, 1:, 3] = float("inf")
    direction = mean_direction(method, spoilt)
    assert not direction[0].isfinite().all()
    assert torch.equal(direction[1], mean_direction(method, W)[1])


@every_trajectory_method
def test_no_movement_is_no_update(method: TrajectoryMethod) -> None:
    direction = mean_direction(method, torch.ones(1, 2, 6, 5))
    assert torch.equal(direction, torch.zeros(1, 5))


def test_reptile_takes_the_whole_movement_and_foml_the_last_step() -> None:
    W = random_walks(8)
    torch.testing.assert_close(mean_direction(Reptile(), W), (W[:, :, 7] - W[:, :, 0]).mean(1))
    torch.testing.assert_close(mean_direction(Foml(), W), (W[:, :, 7] - W[:, :, 6]).mean(1))


@pytest.mark.parametrize("carry", ["fresh", "shared"])
def test_adams_state_is_carried_or_not(carry: Literal["fresh", "shared"]) -> None:
    exp = Experiment(method=Reptile(), meta=MetaConfig(batch=2))
    inner = replace(exp.inner, optimizer="adam", lr=1e-3, carry=carry)
    setup = set_up(exp, no_progress, "cpu")
    network, state = setup.network, TrainState.fresh(setup)
    tasks, batches = TrainingData(setup).at(0)
    empty = MetaBatch(network, state.theta, state.inner_state, tasks, batches, inner, torch.tensor(0))
    carried = empty._replace(inner_state=InnerState(torch.full_like(state.theta, 1e4), torch.tensor([100.0])))
    update, from_empty = (exp.method.meta_update(batch) for batch in (carried, empty))
    assert torch.equal(update.direction, from_empty.direction) == (carry == "fresh")
    if carry == "shared":
        assert update.inner_state.steps.tolist() == [105.0]
        parts = [carried._replace(tasks=one, batches=its) for one, its in each_task(tasks, batches)]
        each = [exp.method.meta_update(part).inner_state.square for part in parts]
        torch.testing.assert_close(update.inner_state.square, (each[0] + each[1]) / 2)
