"""Introspective self-paced learning (paper, section 4.3, algorithm 2): discard what surprises prior models."""

import math
from dataclasses import dataclass
from typing import Literal, final

import torch
from jaxtyping import Float
from torch import Tensor

from eigen_reptile.errors import ConfigError
from eigen_reptile.inner import InnerConfig, adapt
from eigen_reptile.methods.method import MetaBatch
from eigen_reptile.methods.wrappers.sample_selection import SampleSelector, Selection, chance_loss, select_low_loss
from eigen_reptile.tasks import Batches, take_samples


@final
@dataclass(frozen=True)
class Ispl(SampleSelector):
    """Chen et al. 2022, https://arxiv.org/abs/2206.01944: discard what surprises prior models.

    Prior models are fitted to other samples of the task; a sample is discarded if its loss under them is gamma or more.
    The defaults are not the paper's (`paper()`), whose gamma of 10 is six times the chance loss among five classes.
    Here the priors are fitted to the candidates themselves, and each prior judges only those that it has not seen. A
    label is discarded if the priors find it less likely than chance, and less likely than before they were fitted: so
    priors that could not learn much discard few samples, rather than those that the network got wrong from the start.
    The threshold was chosen on validation tasks (docs/results.md, noisy-tune). Use it where many labels in
    meta-training are wrong.
    """

    priors: int = 2
    """Prior models (Q)."""
    extra_steps: int = 5
    """Steps that each prior takes beyond those of the inner loop."""
    prior_batches: int = 0
    """Mini-batches of samples set aside to fit the priors to. With 0, each prior is fitted to its own part of the
    candidates and judges only the others."""
    sharing: Literal["independent", "shared"] = "independent"
    """How the samples set aside are shared: each prior gets its own part, or every prior gets all of them in another
    order."""
    extra_batches: int = 5
    """Mini-batches of candidates beyond those that the inner loop takes."""
    gamma: float = 1.0
    """Threshold (gamma) in the first iteration."""
    grown: bool = True
    """Whether a loss counts only if it has increased while the prior was fitted."""
    unit: Literal["chance", "nats"] = "chance"
    """Unit of gamma, its decay and its floor: the chance loss (ln N among N classes), or nats."""
    decay: float = 0.0
    """Amount (mu) by which gamma decreases each time."""
    every: int = 1000
    """Iterations between two decreases of gamma."""
    floor: float = 0.0
    """Lower bound of gamma."""
    order: Literal["drawn", "easiest-first"] = "drawn"
    """Order in which the kept samples are learnt."""
    discard: Literal["hardest", "easiest"] = "hardest"
    """Which samples are discarded. The authors' program discards as many of the easiest samples as there are samples
    that are too hard."""

    def __post_init__(self) -> None:
        for name, least in {"priors": 1, "prior_batches": 0, "every": 1, "extra_steps": 0, "extra_batches": 0}.items():
            if getattr(self, name) < least:
                raise ConfigError(f"`method.selector.{name}` must be at least {least}, not {getattr(self, name)}")
        if self.prior_batches == 0 and (self.priors < 2 or self.sharing == "shared"):
            raise ConfigError(
                "with `method.selector.prior_batches` 0, `method.selector.priors` must be at least 2 and "
                "`method.selector.sharing` must be independent"
            )
        if not self.gamma > 0:
            raise ConfigError(f"`method.selector.gamma` must be above 0, not {self.gamma}")
        for name in ("decay", "floor"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ConfigError(f"`method.selector.{name}` must be finite and at least 0, not {getattr(self, name)}")

    @staticmethod
    def paper() -> "Ispl":
        """Gamma from 10, decreasing by 0.6 after every 1,000 iterations down to the chance loss among five classes."""
        return Ispl(prior_batches=3, gamma=10.0, grown=False, unit="nats", decay=0.6, floor=math.log(5))

    @staticmethod
    def authors() -> "Ispl":
        """The rule in the authors' published bytecode: discard the easiest candidates, and learn the others in
        order."""
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

    def batches_to_draw(self, inner: InnerConfig) -> int:
        assert inner.batch is not None  # checked by WithSampleSelection
        to_fit = inner.batch * (self.prior_batches or inner.steps + self.extra_batches)
        if to_fit < self.priors:
            raise ConfigError(
                f"`method.selector.priors` {self.priors} is too large for {to_fit} samples: use a larger `inner.batch`"
            )
        return inner.steps + self.extra_batches + self.prior_batches

    def selection_samples(self, inner: InnerConfig) -> int:
        """Those that the priors are fitted to, and the candidates that they judge, before and after the fit."""
        assert inner.batch is not None  # checked by WithSampleSelection
        candidates = inner.batch * (inner.steps + self.extra_batches)
        fitted = self.priors * inner.batch * (inner.steps + self.extra_steps)
        judged = candidates * (self.priors if self.prior_batches else self.priors - 1)
        return fitted + (2 if self.grown else 1) * judged

    def gamma_at(self, step: Tensor) -> Float[Tensor, ""]:
        """Gamma at an iteration, counted from 0; it depends on nothing else, so a resumed run finds the same value."""
        return (self.gamma - self.decay * (step // self.every)).clamp(min=self.floor)

    def select(self, batch: MetaBatch) -> Selection:
        network, _, state, tasks, batches, inner = batch.adaptation
        start = batch.adaptation.network_theta
        aside = inner.steps + self.extra_batches
        candidates, set_aside = (
            Batches(*(part[:, :, some].flatten(2, 3) for part in batches))
            for some in (slice(aside), slice(aside, None))
        )
        positions = torch.arange(candidates.chosen.shape[2], device=tasks.x.device)
        total, judges = torch.zeros_like(candidates.weight), torch.zeros_like(candidates.weight)
        for number in range(self.priors):
            own = self._part(len(positions), number)
            unseen = positions if self.prior_batches else torch.cat([positions[: own.start], positions[own.stop :]])
            fitting_batches = self._in_steps(
                self._samples_of(set_aside if self.prior_batches else candidates, number), inner
            )
            prior, _ = adapt(network.gradient, start, state, tasks.x, fitting_batches, inner)
            x, y = take_samples(tasks.x, candidates.chosen[:, :, unseen]), candidates.y[:, :, unseen]
            losses = network.losses(prior, x, y)
            if self.grown:
                losses = torch.where(losses > network.losses(start, x, y), losses, 0.0)
            total[:, :, unseen] += losses
            judges[:, :, unseen] += 1
        unit = chance_loss(tasks, candidates.y) if self.unit == "chance" else 1.0
        return select_low_loss(
            candidates, total / judges, self.gamma_at(batch.step) * unit, inner, self.order, self.discard
        )

    def _part(self, count: int, number: int) -> slice:
        """One prior's own part of some samples. They are in random order, so any cut is a random one."""
        return slice(number * count // self.priors, (number + 1) * count // self.priors)

    def _samples_of(self, samples: Batches, number: int) -> Batches:
        """The samples that one prior is fitted to."""
        part = self._part(samples.chosen.shape[2], number)
        if self.sharing == "shared":
            return Batches(*(some.roll(-part.start, dims=2) for some in samples))
        return Batches(*(some[:, :, part] for some in samples))

    def _in_steps(self, samples: Batches, inner: InnerConfig) -> Batches:
        """The samples as mini-batches, repeated in the same order as often as needed."""
        assert inner.batch is not None  # checked by WithSampleSelection
        steps = inner.steps + self.extra_steps
        turns = torch.arange(steps * inner.batch, device=samples.chosen.device) % samples.chosen.shape[2]
        return Batches(*(part[:, :, turns].unflatten(2, (steps, inner.batch)) for part in samples))
