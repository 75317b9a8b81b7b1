"""Introspective self-paced learning (paper, section 4.3, algorithm 2): drop what prior models find surprising."""

import math
from dataclasses import dataclass
from typing import Literal, final

import torch
from jaxtyping import Float
from torch import Tensor

from eigen_reptile.inner import InnerConfig, adapt
from eigen_reptile.methods.method import Iteration
from eigen_reptile.methods.selected import Selection, Selector, keep, loss_of_a_guess
from eigen_reptile.tasks import Batches, take_samples


@final
@dataclass(frozen=True)
class Ispl(Selector):
    """Drop the samples whose loss under prior models, fitted to other samples of the task, is gamma or more.

    The defaults are not the paper's (`paper()`), whose gamma of 10 is six times the loss of a guess among five. Here
    the candidates themselves teach the priors, each of which is then asked about those that it has not seen. A label
    is dropped if the priors find it less likely than chance, and less likely than before they learnt anything:
    priors that could not learn much then drop little, rather than what the network was wrong about from the start.
    Validation tasks chose the threshold (docs/results.md, noisy-tune).
    """

    priors: int = 2
    """Prior models (Q)."""
    extra_steps: int = 5
    """Steps that each prior takes beyond those of the inner loop."""
    prior_batches: int = 0
    """Mini-batches of samples that are set aside to fit the priors to. With 0 they are fitted to the candidates, each
    to its own part of them, and asked about the others only."""
    sharing: Literal["independent", "shared"] = "independent"
    """Of the samples that are set aside: whether each prior has its own part, or all have all, in another order."""
    extra_batches: int = 5
    """Mini-batches of candidates beyond those that the inner loop takes."""
    gamma: float = 1.0
    """Threshold (gamma) in the first iteration."""
    grown: bool = True
    """Whether a loss counts only where it has grown while the prior learnt."""
    unit: Literal["guess", "nats"] = "guess"
    """In what gamma, its decay and its floor are measured: in the loss of a guess, ln N among N classes, or as is."""
    decay: float = 0.0
    """What gamma loses (mu) after every so many iterations."""
    every: int = 1000
    """Iterations after which gamma decays."""
    floor: float = 0.0
    """What gamma does not fall below."""
    order: Literal["drawn", "easiest-first"] = "drawn"
    """In what order the samples that are kept are learnt."""
    discard: Literal["hardest", "easiest"] = "hardest"
    """What is dropped. The authors' program drops as many of the easiest as there are too hard ones."""

    def __post_init__(self) -> None:
        for name, least in {"priors": 1, "prior_batches": 0, "every": 1, "extra_steps": 0, "extra_batches": 0}.items():
            if getattr(self, name) < least:
                raise ValueError(f"{name} must be at least {least}, not {getattr(self, name)}")
        if self.prior_batches == 0 and (self.priors < 2 or self.sharing == "shared"):
            raise ValueError("without samples set aside there must be at least 2 priors, each with its own part")
        if not self.gamma > 0:
            raise ValueError(f"gamma must be above 0, not {self.gamma}")
        for name in ("decay", "floor"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"{name} must be finite and at least 0, not {getattr(self, name)}")

    @staticmethod
    def paper() -> "Ispl":
        """Gamma from 10, 0.6 less after every 1,000 iterations, down to the loss of a guess among five."""
        return Ispl(prior_batches=3, gamma=10.0, grown=False, unit="nats", decay=0.6, floor=math.log(5))

    @staticmethod
    def authors_bytecode() -> "Ispl":
        """As the authors' compiled program does it: the easiest of the candidates, easiest first."""
        return Ispl(
            prior_batches=3,
            sharing="shared",
            gamma=9.5,
            grown=False,
            unit="nats",
            decay=0.5,
            order="easiest-first",
            discard="easiest",
        )

    def batches(self, inner: InnerConfig) -> int:
        to_learn = inner.batch * (self.prior_batches or inner.steps + self.extra_batches)
        if to_learn < self.priors:
            raise ValueError(f"{self.priors} priors cannot share {to_learn} samples")
        return inner.steps + self.extra_batches + self.prior_batches

    def gamma_at(self, step: Tensor) -> Float[Tensor, ""]:
        """Gamma in an iteration, counted from 0: a function of nothing else, so that resuming restores it."""
        return (self.gamma - self.decay * (step // self.every)).clamp(min=self.floor)

    def select(self, iteration: Iteration) -> Selection:
        learner, _, _, tasks, batches, inner, step = iteration
        aside = inner.steps + self.extra_batches
        candidates, set_aside = (
            Batches(*(part[:, :, some].flatten(2, 3) for part in batches))
            for some in (slice(aside), slice(aside, None))
        )
        places = torch.arange(candidates.chosen.shape[2], device=tasks.x.device)
        total, asked = torch.zeros_like(candidates.weight), torch.zeros_like(candidates.weight)
        for number in range(self.priors):
            part = self._part(len(places), number)
            unseen = places if self.prior_batches else torch.cat([places[: part.start], places[part.stop :]])
            lessons = self._lessons(set_aside if self.prior_batches else candidates, number)
            taught = self._in_steps(lessons, inner)
            prior, _ = adapt(learner.gradient, iteration.network, iteration.start, tasks.x, taught, inner)
            x, y = take_samples(tasks.x, candidates.chosen[:, :, unseen]), candidates.y[:, :, unseen]
            losses = learner.losses(prior, x, y)
            if self.grown:
                losses = torch.where(losses > learner.losses(iteration.network, x, y), losses, 0.0)
            total[:, :, unseen] += losses
            asked[:, :, unseen] += 1
        unit = loss_of_a_guess(tasks, candidates.y) if self.unit == "guess" else 1.0
        return keep(candidates, total / asked, self.gamma_at(step) * unit, inner, self.order, self.discard)

    def _part(self, count: int, number: int) -> slice:
        """One prior's own part of some samples. They are in random order, so that any cut of them is a random one."""
        return slice(number * count // self.priors, (number + 1) * count // self.priors)

    def _lessons(self, samples: Batches, number: int) -> Batches:
        """What one prior learns from."""
        part = self._part(samples.chosen.shape[2], number)
        if self.sharing == "shared":
            return Batches(*(some.roll(-part.start, dims=2) for some in samples))
        return Batches(*(some[:, :, part] for some in samples))

    def _in_steps(self, lessons: Batches, inner: InnerConfig) -> Batches:
        """Mini-batches, round and round through the lessons."""
        steps = inner.steps + self.extra_steps
        turns = torch.arange(steps * inner.batch, device=lessons.chosen.device) % lessons.chosen.shape[2]
        return Batches(*(part[:, :, turns].unflatten(2, (steps, inner.batch)) for part in lessons))
