"""What one outer iteration hands to the next, and how it moves on."""

from collections.abc import Mapping
from functools import partial
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from eigen_reptile.config import Experiment, MetaConfig
from eigen_reptile.distributed import Workers
from eigen_reptile.files import RunError
from eigen_reptile.inner import InnerState
from eigen_reptile.methods import Proposal
from eigen_reptile.running_norm import RATE
from eigen_reptile.stage import Stage, better

BETA1, BETA2, EPS = 0.9, 0.999, 1e-8
"""Adam's settings in the outer loop."""


class Best(NamedTuple):
    """Each lane's best point of the learning curve so far."""

    theta: Float[Tensor, "S D"]
    memory: InnerState
    score: Float[Tensor, "S"]
    """NaN before the first."""
    step: Int[Tensor, "S"]


class OuterState(NamedTuple):
    """The outer optimiser's memory, which is empty where it takes directions as they are."""

    first: Float[Tensor, "S M"]
    """Adam's decaying mean of the directions."""
    second: Float[Tensor, "S M"]
    """And of their squares."""

    @staticmethod
    def fresh(theta: Float[Tensor, "S D"], meta: MetaConfig) -> "OuterState":
        size = theta.shape[1] if meta.optimizer == "adam" else 0
        return OuterState(theta.new_zeros(len(theta), size), theta.new_zeros(len(theta), size))

    def moved(
        self, direction: Float[Tensor, "S D"], meta: MetaConfig, step: int
    ) -> tuple[Float[Tensor, "S D"], "OuterState"]:
        """What to take of a direction in this iteration, counted from 1, and the memory afterwards."""
        if meta.clip is not None:
            direction = direction.clamp(-meta.clip, meta.clip)
        if meta.optimizer == "step":
            return direction, self
        first = self.first.lerp(direction, 1 - BETA1)
        second = self.second.lerp(direction.square(), 1 - BETA2)
        root = (second / (1 - BETA2**step)).sqrt()
        return first / (1 - BETA1**step) / (root + EPS), OuterState(first, second)


class TrainState(NamedTuple):
    """All that one iteration hands to the next, for S lanes."""

    step: int
    theta: Float[Tensor, "S D"]
    memory: InnerState
    diverged_at: Int[Tensor, "S"]
    """Iteration at which a lane stopped being finite, and was left where it had been; -1 for a lane that lives."""
    best: Best
    outer: OuterState

    @property
    def alive(self) -> bool:
        """Whether a lane is left that has not diverged."""
        return bool((self.diverged_at < 0).any())

    @staticmethod
    def fresh(stage: Stage) -> "TrainState":
        method, learner, lanes = stage.exp.method, stage.learner, stage.exp.lanes
        theta = torch.stack([method.init(learner, lane.seed, stage.domain) for lane in lanes]).to(stage.device)
        memory = InnerState.empty(theta[:, : learner.d])
        never = torch.full((len(theta),), -1, device=stage.device)
        best = Best(theta, memory, torch.full_like(theta[:, 0], torch.nan), never)
        return TrainState(0, theta, memory, never, best, OuterState.fresh(theta, stage.exp.meta))

    def advance(
        self, proposal: Proposal, lr: Float[Tensor, "S"], meta: MetaConfig, running: Bool[Tensor, "D"] | None = None
    ) -> "TrainState":
        """theta + lr * direction, or what the outer optimiser makes of it, except in lanes that have diverged.

        Numbers that are running statistics follow their directions at a rate of their own.
        """
        step = self.step + 1
        move, outer = self.outer.moved(proposal.direction, meta, step)
        theta = self.theta + lr[:, None] * move
        if running is not None:
            theta = torch.where(running, self.theta + RATE * proposal.direction, theta)
        finite = _finite(theta) & _finite(proposal.memory.square)
        alive = self.diverged_at < 0
        if bool((alive & finite).all()):  # nearly always, and then nothing needs to be put together
            return self._replace(step=step, theta=theta, memory=proposal.memory, outer=outer)
        return self._replace(
            step=step,
            theta=_where(alive & finite, theta, self.theta),
            memory=InnerState(*map(partial(_where, alive & finite), proposal.memory, self.memory)),
            outer=OuterState(*map(partial(_where, alive & finite), outer, self.outer)),
            diverged_at=torch.where(alive & ~finite, step, self.diverged_at),
        )

    def judged(self, exp: Experiment, score: Float[Tensor, "S"]) -> "TrainState":
        """With the scores of this step taken into account: is it the best so far?"""
        new = (self.diverged_at < 0) & (better(exp, score, self.best.score) | self.best.score.isnan())
        now = Best(self.theta, self.memory, score, torch.full_like(self.best.step, self.step))
        memory = InnerState(*map(partial(_where, new), now.memory, self.best.memory))
        theta, score, step = (
            _where(new, ours, best)
            for ours, best in ((now.theta, self.best.theta), (now.score, self.best.score), (now.step, self.best.step))
        )
        return self._replace(best=Best(theta, memory, score, step))

    def tensors(self) -> dict[str, Tensor]:
        """What a checkpoint keeps."""
        return {
            "theta": self.theta,
            "memory.square": self.memory.square,
            "memory.steps": self.memory.steps,
            "diverged_at": self.diverged_at,
            "best.theta": self.best.theta,
            "best.memory.square": self.best.memory.square,
            "best.memory.steps": self.best.memory.steps,
            "best.score": self.best.score,
            "best.step": self.best.step,
            "outer.first": self.outer.first,
            "outer.second": self.outer.second,
        }

    def as_lead(self, workers: Workers) -> "TrainState":
        """The state of the worker that has read the checkpoint."""
        step, *tensors = workers.as_lead([torch.tensor(self.step, device=self.theta.device), *self.tensors().values()])
        return self.restored(int(step), dict(zip(self.tensors(), tensors, strict=True)))

    def restored(self, step: int, tensors: Mapping[str, Tensor]) -> "TrainState":
        """The state that a checkpoint kept, if it fits this one."""
        if _forms(tensors) != _forms(self.tensors()):
            raise RunError(
                f"the checkpoint of step {step} has other parameters than this experiment's network and data"
            )
        # Copies, because what is read from a file need not be aligned as kernels like it.
        kept = {name: tensors[name].clone().to(self.theta.device) for name in self.tensors()}
        best = Best(
            kept["best.theta"],
            InnerState(kept["best.memory.square"], kept["best.memory.steps"]),
            kept["best.score"],
            kept["best.step"],
        )
        memory = InnerState(kept["memory.square"], kept["memory.steps"])
        outer = OuterState(kept["outer.first"], kept["outer.second"])
        return TrainState(step, kept["theta"], memory, kept["diverged_at"], best, outer)


def _finite(rows: Float[Tensor, "S D"]) -> Bool[Tensor, "S"]:
    """Whether all numbers of each row are finite, by their sum, which takes a fraction of the time to look at each."""
    return rows.sum(-1).isfinite()


def _where(lanes: Tensor, new: Tensor, old: Tensor) -> Tensor:
    """The new rows in these lanes, the old ones in the others."""
    return torch.where(lanes.view(-1, *[1] * (new.ndim - 1)), new, old)


def _forms(tensors: Mapping[str, Tensor]) -> dict[str, tuple[torch.Size, torch.dtype]]:
    return {name: (tensor.shape, tensor.dtype) for name, tensor in tensors.items()}
