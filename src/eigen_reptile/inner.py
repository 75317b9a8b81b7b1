"""The inner loop: n gradient steps on every task at once, as pure functions.

All random draws are made beforehand: the mini-batches are arguments. So the loop can be batched, compiled and
differentiated, and the same arguments always give the same trajectory.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple, final

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from eigen_reptile.errors import ConfigError
from eigen_reptile.tasks import Batches, take_samples

Gradient = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
"""From parameters (S, B, d), samples, labels and weights to gradients (S, B, d), like `Network.gradient`."""


@final
@dataclass(frozen=True)
class InnerConfig:
    """The inner loop: how parameters are adapted to a task."""

    steps: int = 5
    """Gradient steps on each training task (n)."""
    batch: int | None = 10
    """Samples in the mini-batch of each step (b); None: the whole support."""
    lr: float = 0.02
    """Inner learning rate."""
    optimizer: Literal["sgd", "adam"] = "sgd"
    """Plain gradient descent, or Adam with beta1 = 0 in TensorFlow's form."""
    beta2: float = 0.999
    """Adam's decay of the squared gradients."""
    eps: float = 1e-8
    """Adam's constant against division by zero, added outside of the bias correction."""
    carry: Literal["fresh", "shared"] = "shared"
    """Adam's state: fresh for each task, or shared by all tasks and averaged after each meta-batch."""

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise ConfigError(f"`inner.steps` must be at least 1, not {self.steps}")
        if self.batch is not None and self.batch < 1:
            raise ConfigError(f"`inner.batch` must be at least 1, or None for the whole support, not {self.batch}")
        for name in ("lr", "eps"):
            if not 0 < getattr(self, name) < math.inf:
                raise ConfigError(f"`inner.{name}` must be finite and above 0, not {getattr(self, name)}")
        if not 0 <= self.beta2 < 1:
            raise ConfigError(f"`inner.beta2` must be at least 0 and below 1, not {self.beta2}")


class InnerState(NamedTuple):
    """The state of the inner optimiser; plain gradient descent leaves it unchanged."""

    square: Float[Tensor, "*L d"]
    """Exponential moving average of the squared gradients (Adam's second moment)."""
    steps: Float[Tensor, "*L"]
    """Number of steps in that average, for its bias correction."""

    @staticmethod
    def empty(theta: Float[Tensor, "*L d"]) -> "InnerState":
        return InnerState(torch.zeros_like(theta), theta.new_zeros(theta.shape[:-1]))

    def carried(self, config: InnerConfig) -> "InnerState":
        """The state with which a task starts: this one, or an empty one."""
        return self if config.carry == "shared" else InnerState(*(torch.zeros_like(part) for part in self))

    def for_tasks(self, tasks: int) -> "InnerState":
        """The state of each replica (S, d), repeated for each of its tasks (S, B, d)."""
        return InnerState(*(part[:, None].expand(-1, tasks, *part.shape[1:]) for part in self))

    def summed_over_tasks(self) -> "InnerState":
        """The sum over the tasks (S, B, d) of each replica (S, d)."""
        return InnerState(*(part.sum(1) for part in self))


def adapt(
    gradient: Gradient,
    theta: Float[Tensor, "S B d"],
    state: InnerState,
    x: Shaped[Tensor, "S B m *shape"],
    batches: Batches,
    config: InnerConfig,
) -> tuple[Float[Tensor, "S B d"], InnerState]:
    """The last point of the inner loop, and the optimiser's state there."""
    end = theta, state
    for point in _points_of_inner_loop(gradient, theta, state, x, batches, config):
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
    """All points of the inner loop (W), the start first, and the optimiser's state at the end."""
    points, end = [theta], (theta, state)
    for end in _points_of_inner_loop(gradient, theta, state, x, batches, config):
        points.append(end[0])
    return torch.stack(points, dim=2), end[1]


def _points_of_inner_loop(
    gradient: Gradient, theta: Tensor, state: InnerState, x: Tensor, batches: Batches, config: InnerConfig
) -> Iterator[tuple[Tensor, InnerState]]:
    # Samples and rates of all steps are computed at once, because many small calls take longer.
    steps, size = batches.chosen.shape[2:]
    samples = take_samples(x, batches.chosen.flatten(2)).unflatten(2, (steps, size))
    parts = (samples, batches.y, batches.weight, _learning_rates(state, steps, config))
    for batch_x, y, weight, rate in zip(*(part.unbind(2) for part in parts), strict=True):
        theta, state = _optimizer_step(theta, gradient(theta, batch_x, y, weight), rate, state, config)
        yield theta, state


def _learning_rates(state: InnerState, steps: int, config: InnerConfig) -> Float[Tensor, "S B n 1"]:
    """The learning rate of each of the next steps; Adam's includes the bias correction."""
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
    # The clamp changes no step; it keeps the derivative of the square root finite where a gradient is exactly zero.
    root = square.clamp(min=torch.finfo(square.dtype).tiny).sqrt()
    return theta - rate * gradient / (root + config.eps), InnerState(square, state.steps + 1)
