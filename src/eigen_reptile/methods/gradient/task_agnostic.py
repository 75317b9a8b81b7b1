"""TAML: objectives that keep the initialisation from favouring some tasks."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, final

import torch
from jaxtyping import Float
from torch import Tensor

from eigen_reptile.errors import ConfigError
from eigen_reptile.methods.gradient.gradient_method import META_LOSS, MetaLosses, query_loss
from eigen_reptile.methods.gradient.maml import Maml
from eigen_reptile.methods.gradient.objective import Objective
from eigen_reptile.methods.method import MetaBatch, Requirements

Measure = Literal["theil", "atkinson", "log-variance"]
FIRST, SECOND = "first", "second"
"""The two means over tasks from which a measure of inequality is computed."""


@final
@dataclass(frozen=True)
class EntropyReduction(Objective):
    """Jamal and Qi 2019, https://arxiv.org/abs/1805.07722: uncertain predictions before adaptation, certain ones after.

    Use it for classification, where the initialisation should not prefer any class.
    """

    samples: Literal["queries", "support"] = "queries"
    """Samples whose prediction entropy counts."""
    strength: float = 0.1
    """Weight of the entropy term (lambda)."""

    def __post_init__(self) -> None:
        check_strength(self.strength)

    @property
    def requirements(self) -> Requirements:
        return Requirements(queries=True, classification_only=True)

    def meta_losses(self, maml: Maml, batch: MetaBatch) -> MetaLosses:
        network, tasks, start = batch.network, batch.tasks, batch.adaptation
        theta, _ = maml.adapt(start)
        adapted = theta[..., : network.d]
        predictions = network.outputs(adapted, tasks.query_x)
        if self.samples == "queries":
            before, after = network.outputs(start.network_theta, tasks.query_x), predictions
        else:
            before, after = (network.outputs(point, tasks.x) for point in (start.network_theta, adapted))
        reduction = (_entropy(before) - _entropy(after)).mean(-1)
        loss_on_queries = network.sample_loss(predictions, tasks.query_y).mean(-1)
        return MetaLosses({META_LOSS: loss_on_queries - self.strength * reduction})


@final
@dataclass(frozen=True)
class LossInequality(Objective):
    """Jamal and Qi 2019, https://arxiv.org/abs/1805.07722: equal losses of all tasks before adaptation.

    The inequality of the losses in a meta-batch is added to MAML's loss. Use it where some tasks are much easier than
    others; it needs two tasks or more in a meta-batch.
    """

    measure: Measure = "theil"
    """Measure of inequality."""
    samples: Literal["queries", "support"] = "support"
    """Samples whose losses should be equal."""
    strength: float = 0.1
    """Weight of the inequality (lambda)."""

    def __post_init__(self) -> None:
        check_strength(self.strength)

    @property
    def requirements(self) -> Requirements:
        return Requirements(queries=True, min_tasks=2)  # a single loss is equal to itself

    def meta_losses(self, maml: Maml, batch: MetaBatch) -> MetaLosses:
        network, tasks, start = batch.network, batch.tasks, batch.adaptation
        theta, _ = maml.adapt(start)
        loss_on_queries = query_loss(maml, network, theta, tasks)
        x, y = (tasks.x, tasks.y) if self.samples == "support" else (tasks.query_x, tasks.query_y)
        loss = network.losses(start.network_theta, x, y).mean(-1).clamp(min=1e-6)
        log = loss.log()
        first, second = {
            "theil": (loss, loss * log),
            "atkinson": (loss, log),
            "log-variance": (log, log.square()),
        }[self.measure]
        return MetaLosses({META_LOSS: loss_on_queries, FIRST: first, SECOND: second}, self._weights)

    def _weights(self, means: Mapping[str, Float[Tensor, "S"]]) -> dict[str, Float[Tensor, "S"]]:
        """The chain rule: the derivatives of the measure with respect to its two means."""
        with torch.enable_grad():
            first, second = (means[name].detach().requires_grad_() for name in (FIRST, SECOND))
            measure = inequality(self.measure, first, second)
            slopes = torch.autograd.grad(measure.sum(), (first, second), materialize_grads=True)
        return {name: self.strength * slope for name, slope in zip((FIRST, SECOND), slopes, strict=True)}


def inequality(measure: Measure, first: Float[Tensor, "S"], second: Float[Tensor, "S"]) -> Float[Tensor, "S"]:
    """The inequality of losses, from two means over them; zero if all are equal."""
    if measure == "theil":
        return second / first - first.log()
    if measure == "atkinson":
        return 1 - second.exp() / first
    return second - first.square()


def _entropy(logits: Float[Tensor, "S B q way"]) -> Float[Tensor, "S B q"]:
    log = logits.log_softmax(-1)
    return -(log.exp() * log).sum(-1)


def check_strength(strength: float) -> None:
    if not strength >= 0:
        raise ConfigError(f"`method.objective.strength` must be at least 0, not {strength}")
