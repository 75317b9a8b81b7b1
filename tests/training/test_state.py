"""The state of the outer loop: how it advances, what is best so far, and how it is stored."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from eigen_reptile.errors import RunError
from eigen_reptile.inner import InnerState
from eigen_reptile.methods import MetaUpdate
from eigen_reptile.nn.running_norm import MOMENTUM
from eigen_reptile.runtime.progress import no_progress
from eigen_reptile.training.config import Experiment, MetaConfig
from eigen_reptile.training.setup import set_up
from eigen_reptile.training.state import TrainState
from patterns import SMALL as IMAGES

SMALL = Experiment(meta=MetaConfig(steps=12, lr=(0.5,)), seeds=(0, 1), compile="off")


def fresh(exp: Experiment = SMALL) -> TrainState:
    return TrainState.fresh(set_up(exp, no_progress, "cpu"))


def update(direction: Tensor, inner_state: InnerState) -> MetaUpdate:
    return MetaUpdate({"meta": direction}, {}, inner_state)


def test_a_diverged_replica_keeps_its_last_finite_state() -> None:
    state = fresh()
    direction = torch.ones_like(state.theta)
    direction[1, 5] = float("nan")
    lr, meta = torch.tensor([0.5, 0.5]), SMALL.meta
    after = state.advanced(update(direction, state.inner_state), lr, meta)
    assert torch.equal(after.theta[0], state.theta[0] + 0.5)
    assert torch.equal(after.theta[1], state.theta[1])
    assert after.diverged_at.tolist() == [-1, 1]
    assert after.alive
    later = after.advanced(update(torch.ones_like(direction), state.inner_state), lr, meta)
    assert torch.equal(later.theta[1], state.theta[1])
    assert later.diverged_at.tolist() == [-1, 1]
    last = later.advanced(update(torch.full_like(direction, torch.inf), state.inner_state), lr, meta)
    assert last.diverged_at.tolist() == [3, 1]
    assert not last.alive


def test_an_inner_state_that_is_not_finite_is_a_divergence_too() -> None:
    state = fresh()
    square = torch.ones_like(state.inner_state.square)
    square[0, 3] = float("inf")
    inner_state = InnerState(square, torch.full((2,), 4.0))
    after = state.advanced(update(torch.ones_like(state.theta), inner_state), torch.ones(2), SMALL.meta)
    assert after.diverged_at.tolist() == [1, -1]
    assert after.inner_state.steps.tolist() == [0, 4]
    assert torch.equal(after.inner_state.square, torch.stack([state.inner_state.square[0], square[1]]))


def test_the_outer_adam_is_torchs() -> None:
    meta = replace(SMALL.meta, optimizer="adam", clip=0.5, batch=1)
    state = fresh(replace(SMALL, meta=meta))
    theirs = state.theta.clone().requires_grad_()
    adam = torch.optim.Adam([theirs], lr=0.1)
    generator = torch.Generator().manual_seed(0)
    for _ in range(5):
        direction = torch.randn(state.theta.shape, generator=generator)
        theirs.grad = -direction.clamp(-0.5, 0.5)
        adam.step()
        state = state.advanced(update(direction, state.inner_state), torch.full((2,), 0.1), meta)
    torch.testing.assert_close(state.theta, theirs.detach())
    again = state.restored(5, state.tensors())
    assert torch.equal(again.outer.first, state.outer.first)
    assert torch.equal(again.outer.second, state.outer.second)


def test_running_statistics_follow_their_directions_at_their_own_rate() -> None:
    state = fresh()
    running = torch.arange(state.theta.shape[1]) % 3 == 0
    direction = torch.full_like(state.theta, 2.0)
    after = state.advanced(update(direction, state.inner_state), torch.full((2,), 0.5), SMALL.meta, running)
    expected = state.theta + torch.where(running, 2 * MOMENTUM, 1.0)
    torch.testing.assert_close(after.theta, expected)


@pytest.mark.parametrize("higher_is_better", [True, False])
def test_the_best_point_of_each_replica_is_kept(higher_is_better: bool) -> None:
    exp, sign = (IMAGES, 1) if higher_is_better else (SMALL, -1)
    state = fresh(exp)
    points = [state.theta + step for step in range(4)]
    scores = sign * torch.tensor([[1.0, 1.0], [3.0, 0.5], [2.0, torch.nan], [3.0, 1.5]])
    for step, (theta, score) in enumerate(zip(points, scores, strict=True)):
        state = state._replace(step=step, theta=theta).with_score(exp, score)
    assert state.best.step.tolist() == [1, 3]
    assert state.best.score.tolist() == [sign * 3.0, sign * 1.5]
    assert torch.equal(state.best.theta, torch.stack([points[1][0], points[3][1]]))
    diverged = state._replace(step=9, diverged_at=torch.tensor([5, -1])).with_score(
        exp, sign * torch.tensor([9.0, 9.0])
    )
    assert diverged.best.step.tolist() == [1, 9]


def test_a_checkpoint_of_another_experiment_is_rejected() -> None:
    state = fresh()
    assert torch.equal(state.restored(7, state.tensors()).theta, state.theta)
    for wrong in (
        state.tensors() | {"theta": state.theta[:1]},
        state.tensors() | {"theta": state.theta.double()},
        state.tensors() | {"more": state.theta},
        {"theta": state.theta},
    ):
        with pytest.raises(RunError, match="step 7 has other parameters"):
            state.restored(7, wrong)


def test_a_restored_state_is_the_stored_one() -> None:
    state = fresh(replace(SMALL, meta=replace(SMALL.meta, optimizer="adam")))
    generator = torch.Generator().manual_seed(0)
    tensors = {
        name: torch.rand(tensor.shape, generator=generator).mul(9).to(tensor.dtype)
        for name, tensor in state.tensors().items()
    }
    restored = state.restored(11, tensors)
    assert restored.step == 11
    assert restored.tensors().keys() == tensors.keys()
    for name, tensor in restored.tensors().items():
        assert torch.equal(tensor, tensors[name]), name
