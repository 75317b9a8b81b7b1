"""A wrapper that restricts a method's inner loop to the samples that a selector keeps."""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, final

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from eigen_reptile.errors import ConfigError
from eigen_reptile.inner import InnerConfig, InnerState
from eigen_reptile.methods.method import Adaptation, MetaBatch, MetaUpdate, Method, Requirements
from eigen_reptile.nn.network import Network
from eigen_reptile.tasks import Batches, Tasks, take_samples


class Selection(NamedTuple):
    """Mini-batches made of the selected samples."""

    batches: Batches
    stats: dict[str, Float[Tensor, "S B"]]
    """Fractions of the candidates: kept, wrongly labelled, and both wrongly labelled and discarded."""


@dataclass(frozen=True)
class SampleSelector(ABC):
    """A rule that decides from which samples of a task to learn."""

    @abstractmethod
    def batches_to_draw(self, inner: InnerConfig) -> int:
        """Number of mini-batches to draw from each task, from which those of the inner loop are selected."""

    @abstractmethod
    def selection_samples(self, inner: InnerConfig) -> int:
        """Number of samples of a task that pass through the network for the selection."""

    @abstractmethod
    def select(self, batch: MetaBatch) -> Selection:
        """The mini-batches of the inner loop: a pure function, without control flow on tensor values."""


@final
@dataclass(frozen=True)
class WithSampleSelection(Method):
    """A method whose inner loop learns only from the samples that a selector keeps.

    Use it around a method with an inner loop when labels in meta-training are wrong.
    """

    method: Method
    """The wrapped method."""
    selector: SampleSelector
    """The rule that selects its samples."""

    def __post_init__(self) -> None:
        wrapped = self.method.requirements
        if wrapped.distinct_samples:
            raise ConfigError("the wrapped method already selects samples: wrap it in one selector only")
        if not wrapped.inner_loop:
            raise ConfigError("the wrapped method has no inner loop, so there are no samples to select for it")

    @property
    def requirements(self) -> Requirements:
        return replace(
            self.method.requirements,
            batches_to_draw=self._batches_to_draw,
            distinct_samples=True,
            selection_samples=self.selector.selection_samples,
        )

    def _batches_to_draw(self, inner: InnerConfig) -> int:
        if inner.batch is None:
            raise ConfigError("`inner.batch` must be a number of samples for a method that selects samples, not None")
        self.method.requirements.batches_to_draw(inner)  # the inner loop must suit it, too
        return self.selector.batches_to_draw(inner)

    def meta_update(self, batch: MetaBatch) -> MetaUpdate:
        parts = list(batch.map_tasks(self.selector.select, batch.inner.steps * batch.theta.nbytes))
        kept = Batches(*(torch.cat(part, dim=1) for part in zip(*(part.batches for part in parts), strict=True)))
        stats = {name: torch.cat([part.stats[name] for part in parts], dim=1).mean(1) for name in parts[0].stats}
        update = self.method.meta_update(batch._replace(batches=kept))
        return update._replace(means=update.means | stats)

    def adapt(self, adaptation: Adaptation) -> tuple[Float[Tensor, "S B D"], InnerState]:
        return self.method.adapt(adaptation)

    def predict(
        self, network: Network, theta: Float[Tensor, "S B D"], tasks: Tasks, x: Shaped[Tensor, "S B q *shape"]
    ) -> Shaped[Tensor, "S B q *out"]:
        return self.method.predict(network, theta, tasks, x)


def selection_scores(stats: Mapping[str, float]) -> dict[str, float]:
    """Precision and recall of what a selector discarded, as far as they are defined; nothing without a selector."""
    kept, wrong, found = (stats.get(name, math.nan) for name in ("kept", "wrong", "wrong_discarded"))
    scores = {"precision": (found, 1 - kept), "recall": (found, wrong)}
    return {name: part / whole for name, (part, whole) in scores.items() if whole > 0}


def chance_loss(tasks: Tasks, y: Tensor) -> Float[Tensor, "..."]:
    """The loss of the best constant prediction: ln N among N classes; in regression, the variance about the mean."""
    if not y.is_floating_point():
        return torch.full((1, 1, 1), math.log(tasks.classes.shape[-1]), device=y.device)
    return y.var(2, correction=0).mean(-1, keepdim=True)


def select_low_loss(
    candidates: Batches,  # flat: (S, B, p)
    losses: Float[Tensor, "S B p"],
    gamma: Tensor,
    inner: InnerConfig,
    order: Literal["drawn", "easiest-first"] = "drawn",
    discard: Literal["hardest", "easiest"] = "hardest",
) -> Selection:
    """The mini-batches of the inner loop from the candidates, of which as many are discarded as have a loss >= gamma.

    At least one mini-batch of samples is kept. If too few are kept for all mini-batches, they are repeated.
    """
    assert inner.batch is not None  # checked by WithSampleSelection
    positions = torch.arange(losses.shape[-1], device=losses.device)
    rank = losses.argsort(dim=-1, stable=True).argsort(-1)
    hard = ~(losses < gamma) & gamma.isfinite()  # a loss that is NaN counts as hard
    discarded = hard.sum(-1, keepdim=True).clamp(max=len(positions) - inner.batch)
    kept = rank < len(positions) - discarded if discard == "hardest" else rank >= discarded
    key = rank if order == "easiest-first" else positions.expand_as(rank)
    kept_first = torch.where(kept, key, key + len(positions)).argsort(-1)
    needed = torch.arange(inner.steps * inner.batch, device=losses.device)
    index = kept_first.gather(-1, needed % (len(positions) - discarded))
    batches = Batches(*(take_samples(part, index).unflatten(2, (inner.steps, inner.batch)) for part in candidates))
    stats = {
        "gamma": gamma.double().expand_as(losses)[..., 0],
        "kept": kept.double().mean(-1),
        "wrong": (~candidates.is_clean).double().mean(-1),
        "wrong_discarded": (~candidates.is_clean & ~kept).double().mean(-1),
    }
    return Selection(batches, stats)
