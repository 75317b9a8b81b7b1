"""Any method on samples that a selector has chosen for it."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal, NamedTuple, final

import torch
from jaxtyping import Float
from torch import Tensor

from eigen_reptile.inner import InnerConfig
from eigen_reptile.methods.method import Iteration, Proposal
from eigen_reptile.methods.wrapped import Wrapped
from eigen_reptile.tasks import Batches, Tasks, take_samples


class Selection(NamedTuple):
    """Mini-batches made of the samples that were kept, and how many those were."""

    batches: Batches
    stats: dict[str, Float[Tensor, "S B"]]
    """Of the candidates: the share kept, the share that is wrong, and the share that is wrong and was discarded."""


@dataclass(frozen=True)
class Selector(ABC):
    """A rule that decides which samples of a task to learn from."""

    @abstractmethod
    def batches(self, inner: InnerConfig) -> int:
        """Mini-batches that it needs of each task, to make those of the inner loop out of them."""

    @abstractmethod
    def select(self, iteration: Iteration) -> Selection:
        """The inner loop's mini-batches in this iteration: a pure function, without control flow on values."""


@final
@dataclass(frozen=True)
class Selected(Wrapped):
    """A method that learns from the samples that a selector keeps."""

    selector: Selector
    """What chooses its samples."""

    def __post_init__(self) -> None:
        if isinstance(self.method, Selected):
            raise ValueError("one selector is enough: its samples are not there for another to choose from")
        if not self.method.has_inner_loop:
            raise ValueError("this method has no inner loop: there is nothing to choose samples for")

    def batches(self, inner: InnerConfig) -> int:
        return self.selector.batches(inner)

    def propose(self, iteration: Iteration) -> Proposal:
        parts = list(iteration.in_parts(self.selector.select, iteration.inner.steps * iteration.theta.nbytes))
        kept = Batches(*(torch.cat(part, dim=1) for part in zip(*(part.batches for part in parts), strict=True)))
        stats = {name: torch.cat([part.stats[name] for part in parts], dim=1).mean(1) for name in parts[0].stats}
        proposal = self.method.propose(iteration._replace(batches=kept))
        return proposal._replace(stats=proposal.stats | stats)

    def summary(self, stats: dict[str, float]) -> dict[str, float]:
        """With the precision and recall of what was discarded, as far as there was something to find."""
        kept, wrong, found = (stats.get(name, math.nan) for name in ("kept", "wrong", "wrong_discarded"))
        scores = {"precision": (found, 1 - kept), "recall": (found, wrong)}
        return self.method.summary(stats) | {name: part / whole for name, (part, whole) in scores.items() if whole > 0}


def loss_of_a_guess(tasks: Tasks, y: Tensor) -> Float[Tensor, "..."]:
    """What is lost by knowing nothing: ln N among N classes; of numbers, their variance about the mean."""
    if not y.is_floating_point():
        return torch.full((1, 1, 1), math.log(tasks.classes.shape[-1]), device=y.device)
    return y.var(2, correction=0).mean(-1, keepdim=True)


def keep(
    candidates: Batches,  # flat: (S, B, p)
    losses: Float[Tensor, "S B p"],
    gamma: Tensor,
    inner: InnerConfig,
    order: Literal["drawn", "easiest-first"] = "drawn",
    discard: Literal["hardest", "easiest"] = "hardest",
) -> Selection:
    """The inner loop's mini-batches out of the candidates, without as many as have a loss of gamma or more.

    A mini-batch of samples is kept in any case. If too few are kept for all mini-batches, they come again.
    """
    places = torch.arange(losses.shape[-1], device=losses.device)
    rank = losses.argsort(dim=-1, stable=True).argsort(-1)
    hard = ~(losses < gamma) & gamma.isfinite()  # a loss that is not a number is as bad as any
    discarded = hard.sum(-1, keepdim=True).clamp(max=len(places) - inner.batch)
    kept = rank < len(places) - discarded if discard == "hardest" else rank >= discarded
    key = rank if order == "easiest-first" else places.expand_as(rank)
    kept_first = torch.where(kept, key, key + len(places)).argsort(-1)
    needed = torch.arange(inner.steps * inner.batch, device=losses.device)
    index = kept_first.gather(-1, needed % (len(places) - discarded))
    batches = Batches(*(take_samples(part, index).unflatten(2, (inner.steps, inner.batch)) for part in candidates))
    stats = {
        "gamma": gamma.double().expand_as(losses)[..., 0],
        "kept": kept.double().mean(-1),
        "wrong": (~candidates.right).double().mean(-1),
        "wrong_discarded": (~candidates.right & ~kept).double().mean(-1),
    }
    return Selection(batches, stats)
