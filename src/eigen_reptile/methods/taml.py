"""TAML (Jamal and Qi 2019): MAML that is not to favour some tasks over others."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, final

import torch
from jaxtyping import Float
from torch import Tensor

from eigen_reptile.methods.gradient import META_LOSS
from eigen_reptile.methods.maml import Maml
from eigen_reptile.methods.method import Iteration


@final
@dataclass(frozen=True)
class Taml(Maml):
    """MAML with a term against a network that is surer of, or better at, some tasks than others before adaptation."""

    bias: Literal["entropy", "theil", "atkinson", "log-variance"] = "entropy"
    """entropy: answers are to be unsure before adaptation and sure after it. Otherwise a measure of how unequal the
    losses of a meta-batch's tasks before adaptation are, which is to be small."""
    entropy_of: Literal["queries", "support"] = "queries"
    """The samples to be unsure and sure about."""
    losses_of: Literal["queries", "support"] = "support"
    """The samples whose losses are to be equal."""
    strength: float = 0.1
    """How much that counts (lambda)."""

    def __post_init__(self) -> None:
        if not self.strength >= 0:
            raise ValueError(f"strength must be at least 0, not {self.strength}")

    @property
    def classifies(self) -> bool:
        return self.bias == "entropy"

    @property
    def least_tasks(self) -> int:
        return 1 if self.bias == "entropy" else 2  # the loss of a single task is equal to itself

    def losses(self, iteration: Iteration) -> Float[Tensor, "S B"]:
        """With the entropy: MAML's loss, and how much surer adaptation makes."""
        if self.bias != "entropy":
            return super().losses(iteration)
        learner, tasks = iteration.learner, iteration.tasks
        end, _ = self.adapted(iteration.adaptation)
        adapted = end[..., : learner.d]
        said = learner.outputs(adapted, tasks.query_x)
        if self.entropy_of == "queries":
            before, after = learner.outputs(iteration.network, tasks.query_x), said
        else:
            before, after = (learner.outputs(network, tasks.x) for network in (iteration.network, adapted))
        surer = (_entropy(before) - _entropy(after)).mean(-1)
        return learner.sample_loss(said, tasks.query_y).mean(-1) - self.strength * surer

    def terms(self, iteration: Iteration) -> dict[str, Float[Tensor, "S B"]]:
        """With a measure of inequality: two more, of whose means over all tasks it is made."""
        found = {META_LOSS: self.losses(iteration)}
        if self.bias == "entropy":
            return found
        learner, tasks = iteration.learner, iteration.tasks
        x, y = (tasks.x, tasks.y) if self.losses_of == "support" else (tasks.query_x, tasks.query_y)
        loss = learner.losses(iteration.network, x, y).mean(-1).clamp(min=1e-6)
        log = loss.log()
        first, second = {
            "theil": (loss, loss * log),
            "atkinson": (loss, log),
            "log-variance": (log, log.square()),
        }[self.bias]
        return found | {"first": first, "second": second}

    def weights(self, means: Mapping[str, Float[Tensor, "S"]]) -> dict[str, Float[Tensor, "S"]]:
        """The chain rule: what each of the two means counts in the measure."""
        found = {META_LOSS: torch.ones_like(means[META_LOSS])}
        if self.bias == "entropy":
            return found
        with torch.enable_grad():
            first, second = (means[name].detach().requires_grad_() for name in ("first", "second"))
            measure = inequality(self.bias, first, second)
            slopes = torch.autograd.grad(measure.sum(), (first, second), materialize_grads=True)
        return found | {name: self.strength * slope for name, slope in zip(("first", "second"), slopes, strict=True)}


def inequality(
    measure: Literal["theil", "atkinson", "log-variance"], first: Float[Tensor, "S"], second: Float[Tensor, "S"]
) -> Float[Tensor, "S"]:
    """How unequal losses are, out of two means over them; zero if all are the same."""
    if measure == "theil":
        return second / first - first.log()
    if measure == "atkinson":
        return 1 - second.exp() / first
    return second - first.square()


def _entropy(output: Float[Tensor, "S B q way"]) -> Float[Tensor, "S B q"]:
    log = output.log_softmax(-1)
    return -(log.exp() * log).sum(-1)
