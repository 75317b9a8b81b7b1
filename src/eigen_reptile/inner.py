"""The inner loop: n steps of gradient descent on every task at once, as pure functions.

Everything random was settled before: the mini-batches are arguments. So the loop batches, compiles and
differentiates, and the same arguments always give the same trajectory.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from eigen_reptile.tasks import Batches, take_samples

Gradient = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
"""From parameters (S, B, d), samples, labels and weights to the gradient, as `Learner.gradient` has it."""


@dataclass(frozen=True)
class InnerConfig:
    """How a task's parameters are fitted to it."""

    steps: int = 5
    """Gradient steps on each training task (n)."""
    batch: int = 10
    """Samples in each step's mini-batch (b)."""
    lr: float = 0.02
    """Inner learning rate."""
    optimizer: Literal["sgd", "adam"] = "sgd"
    """Plain gradient descent, or Adam with beta1 = 0 in TensorFlow's form."""
    beta2: float = 0.999
    """Adam's decay of the squared gradients."""
    eps: float = 1e-8
    """Adam's guard against division by zero, added outside of the bias correction."""
    carry: Literal["fresh", "shared"] = "shared"
    """Adam's memory: empty for each task, or shared by all tasks and averaged after each meta-batch."""

    def __post_init__(self) -> None:
        for name in ("steps", "batch"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")
        for name in ("lr", "eps"):
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(f"{name} must be finite and above 0, not {getattr(self, name)}")
        if not 0 <= self.beta2 < 1:
            raise ValueError(f"beta2 must be at least 0 and below 1, not {self.beta2}")


class InnerState(NamedTuple):
    """The optimiser's memory; plain gradient descent leaves it as it is."""

    square: Float[Tensor, "*L d"]
    """Decaying mean of the squared gradients."""
    steps: Float[Tensor, "*L"]
    """Steps behind that mean, for its bias correction."""

    @staticmethod
    def empty(theta: Float[Tensor, "*L d"]) -> "InnerState":
        return InnerState(torch.zeros_like(theta), theta.new_zeros(theta.shape[:-1]))

    def carried(self, config: InnerConfig) -> "InnerState":
        """What of it a task is given."""
        return self if config.carry == "shared" else InnerState(*(torch.zeros_like(part) for part in self))

    def for_tasks(self, tasks: int) -> "InnerState":
        """Each lane's memory (S, d), once for each of its tasks (S, B, d)."""
        return InnerState(*(part[:, None].expand(-1, tasks, *part.shape[1:]) for part in self))


def adapt(
    gradient: Gradient,
    theta: Float[Tensor, "S B d"],
    state: InnerState,
    x: Shaped[Tensor, "S B m *shape"],
    batches: Batches,
    config: InnerConfig,
) -> tuple[Float[Tensor, "S B d"], InnerState]:
    """Where the inner loop ends, started at each task's theta."""
    end = theta, state
    for point in _points(gradient, theta, state, x, batches, config):
        end = point
    return end


def trajectory(
    gradient: Gradient,
    theta: Float[Tensor, "S B d"],
    state: InnerState,
    x: Shaped[Tensor, "S B m *shape"],
    batches: Batches,
    config: InnerConfig,
) -> tuple[Float[Tensor, "S B rows d"], InnerState]:
    """All points that the inner loop passes through (W), the start first."""
    points, end = [theta], (theta, state)
    for end in _points(gradient, theta, state, x, batches, config):
        points.append(end[0])
    return torch.stack(points, dim=2), end[1]


def _points(
    gradient: Gradient, theta: Tensor, state: InnerState, x: Tensor, batches: Batches, config: InnerConfig
) -> Iterator[tuple[Tensor, InnerState]]:
    # What is known beforehand is made for all steps at once: step by step the many small calls would be felt.
    steps, size = batches.chosen.shape[2:]
    samples = take_samples(x, batches.chosen.flatten(2)).unflatten(2, (steps, size))
    parts = (samples, batches.y, batches.weight, _rates(state, steps, config))
    for batch_x, y, weight, rate in zip(*(part.unbind(2) for part in parts), strict=True):
        theta, state = _optimizer_step(theta, gradient(theta, batch_x, y, weight), rate, state, config)
        yield theta, state


def _rates(state: InnerState, steps: int, config: InnerConfig) -> Float[Tensor, "S B n 1"]:
    """The rate of each of the next steps; Adam's contains the bias correction."""
    number = state.steps[..., None] + torch.arange(1, steps + 1, device=state.steps.device)
    if config.optimizer == "sgd":
        return torch.full_like(number, config.lr)[..., None]
    return (config.lr * (1 - config.beta2**number).sqrt())[..., None]


def _optimizer_step(
    theta: Tensor, gradient: Tensor, rate: Tensor, state: InnerState, config: InnerConfig
) -> tuple[Tensor, InnerState]:
    if config.optimizer == "sgd":
        return theta - rate * gradient, state
    square = torch.lerp(state.square, gradient.square(), 1 - config.beta2)
    # The clamp changes no step; it keeps the derivative of the root finite where a gradient was exactly zero.
    root = square.clamp(min=torch.finfo(square.dtype).tiny).sqrt()
    return theta - rate * gradient / (root + config.eps), InnerState(square, state.steps + 1)
