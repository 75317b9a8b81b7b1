"""The inner loop, batched and unbatched, against a plain loop over tasks and steps, in float64."""

import copy

import pytest
import torch
from torch import Tensor, nn

from eigen_reptile.inner import InnerConfig, InnerState, adapt, trajectory
from eigen_reptile.nn import FlatModule, Network, SquaredError
from eigen_reptile.tasks import Batches

S, B, M, STEPS, SIZE = 2, 3, 7, 4, 5

both_ways = pytest.mark.parametrize("batched", [True, False], ids=["batched", "unbatched"])
both_optimizers = pytest.mark.parametrize("optimizer", ["sgd", "adam"])


def small_net() -> nn.Module:
    return nn.Sequential(nn.Linear(2, 6), nn.Tanh(), nn.Linear(6, 1)).double()


def problem(batched: bool) -> tuple[Network, Tensor, Tensor, Tensor, Batches]:
    """A network, initial parameters (S, B, d), inputs, targets, and batches with unequal weights."""
    generator = torch.Generator().manual_seed(0)
    network = Network(FlatModule(small_net), SquaredError(), batched)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    theta, x, y = normal(S, B, network.d), normal(S, B, M, 2), normal(S, B, M, 1)
    chosen = torch.randint(M, (S, B, STEPS, SIZE), generator=generator)
    replica, task = torch.arange(S)[:, None, None, None], torch.arange(B)[None, :, None, None]
    weight = torch.rand(chosen.shape, generator=generator, dtype=torch.float64)
    return (
        network,
        theta,
        x,
        y,
        Batches(chosen, y[replica, task, chosen], weight, torch.ones_like(chosen, dtype=torch.bool)),
    )


def loaded(theta: Tensor) -> nn.Module:
    module = small_net()
    nn.utils.vector_to_parameters(theta.clone(), module.parameters())
    return module


def flat(module: nn.Module) -> Tensor:
    return nn.utils.parameters_to_vector(module.parameters()).detach()


def plain_gradient(module: nn.Module, x: Tensor, y: Tensor, weight: Tensor) -> Tensor:
    module.zero_grad()
    loss = (weight * ((module(x) - y) ** 2).mean(-1)).sum() / weight.sum()
    loss.backward()
    return torch.cat([parameter.grad.reshape(-1) for parameter in module.parameters() if parameter.grad is not None])


def plain_trajectory(
    theta: Tensor, x: Tensor, batches: tuple[Tensor, Tensor, Tensor], config: InnerConfig, square: Tensor, done: int
) -> tuple[Tensor, Tensor]:
    """One task, one step after the other, with TensorFlow's Adam written out: all points, and the second moment."""
    module, rows = loaded(theta), [theta]
    for chosen, y, weight in zip(*batches, strict=True):
        gradient = plain_gradient(module, x[chosen], y, weight)
        if config.optimizer == "sgd":
            move = config.lr * gradient
        else:
            done += 1
            square = config.beta2 * square + (1 - config.beta2) * gradient**2
            rate = config.lr * (1 - config.beta2**done) ** 0.5
            move = rate * gradient / (square**0.5 + config.eps)
        nn.utils.vector_to_parameters(flat(module) - move, module.parameters())
        rows.append(flat(module))
    return torch.stack(rows), square


@both_ways
@both_optimizers
@pytest.mark.parametrize("steps_before", [0, 3])
def test_trajectory_is_that_of_a_plain_loop(optimizer: str, steps_before: int, batched: bool) -> None:
    network, theta, x, _, batches = problem(batched)
    config = InnerConfig(lr=0.05, optimizer=optimizer)  # type: ignore[arg-type]
    state_before = InnerState(torch.rand_like(theta), torch.full((S, B), float(steps_before), dtype=torch.float64))
    W, end = trajectory(network.gradient, theta, state_before, x, batches, config)
    for replica in range(S):
        for task in range(B):
            one = (batches.chosen[replica, task], batches.y[replica, task], batches.weight[replica, task])
            rows, square = plain_trajectory(
                theta[replica, task], x[replica, task], one, config, state_before.square[replica, task], steps_before
            )
            torch.testing.assert_close(W[replica, task], rows, rtol=1e-10, atol=1e-12)
            torch.testing.assert_close(end.square[replica, task], square, rtol=1e-10, atol=1e-12)
    assert (end.steps == steps_before + (STEPS if optimizer == "adam" else 0)).all()


@both_ways
def test_sgd_is_torchs_sgd(batched: bool) -> None:
    network, theta, x, y, batches = problem(batched)
    batches = batches._replace(weight=torch.ones_like(batches.weight))
    end, _ = adapt(network.gradient, theta, InnerState.empty(theta), x, batches, InnerConfig(lr=0.1))
    module = loaded(theta[1, 2])
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    for chosen in batches.chosen[1, 2]:
        optimizer.zero_grad()
        nn.functional.mse_loss(module(x[1, 2, chosen]), y[1, 2, chosen]).backward()
        optimizer.step()
    torch.testing.assert_close(end[1, 2], flat(module), rtol=1e-10, atol=1e-12)


@both_ways
@both_optimizers
def test_adapt_ends_where_the_trajectory_ends_and_modifies_no_argument(optimizer: str, batched: bool) -> None:
    network, theta, x, _, batches = problem(batched)
    config = InnerConfig(lr=0.05, optimizer=optimizer)  # type: ignore[arg-type]
    state_before = InnerState.empty(theta)
    before = copy.deepcopy((theta, state_before, x, batches))
    W, state = trajectory(network.gradient, theta, state_before, x, batches, config)
    end, end_state = adapt(network.gradient, theta, state_before, x, batches, config)
    assert torch.equal(W[:, :, -1], end)
    assert torch.equal(W[:, :, 0], theta)
    assert torch.equal(state.square, end_state.square)
    torch.testing.assert_close((theta, state_before, x, batches), before, rtol=0, atol=0)


@both_ways
@both_optimizers
def test_the_loop_can_be_differentiated(optimizer: str, batched: bool) -> None:
    network, theta, x, _, batches = problem(batched)
    config = InnerConfig(lr=0.05, optimizer=optimizer)  # type: ignore[arg-type]
    two = Batches(*(part[:1, :1, :2] for part in batches))
    # A state that is not empty: from an empty one, Adam's first step is a sign, whose derivative is zero.
    state_before = InnerState(torch.ones_like(theta[:1, :1]), torch.full((1, 1), 50.0, dtype=torch.float64))

    def end(start: Tensor) -> Tensor:
        return adapt(network.gradient, start, state_before, x[:1, :1], two, config)[0]

    start = theta[:1, :1].clone().requires_grad_()
    assert torch.autograd.gradcheck(end, (start,), eps=1e-6, atol=1e-6)


@both_ways
def test_adams_derivative_is_finite_where_a_gradient_is_zero(batched: bool) -> None:
    network, theta, x, _, batches = problem(batched)
    start = theta.clone().requires_grad_()
    nothing = batches._replace(weight=torch.zeros_like(batches.weight))
    end, _ = adapt(network.gradient, start, InnerState.empty(theta), x, nothing, InnerConfig(optimizer="adam"))
    assert torch.equal(end, theta)
    end.sum().backward()
    assert start.grad is not None
    assert start.grad.isfinite().all()


@both_ways
def test_tasks_are_independent_of_each_other(batched: bool) -> None:
    network, theta, x, _, batches = problem(batched)
    config = InnerConfig(lr=0.05)
    W, _ = trajectory(network.gradient, theta, InnerState.empty(theta), x, batches, config)
    corrupted = x.clone()
    corrupted[0, 1] = float("nan")
    V, _ = trajectory(network.gradient, theta, InnerState.empty(theta), corrupted, batches, config)
    assert V[0, 1, 1:].isnan().all()
    others = torch.ones(S, B, dtype=torch.bool)
    others[0, 1] = False
    assert torch.equal(V[others], W[others])
