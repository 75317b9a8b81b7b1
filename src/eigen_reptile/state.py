"""What one outer iteration hands to the next, and how it moves on."""

from collections.abc import Mapping
from functools import partial
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from eigen_reptile.config import Experiment
from eigen_reptile.distributed import Workers
from eigen_reptile.files import RunError
from eigen_reptile.inner import InnerState
from eigen_reptile.methods import Proposal
from eigen_reptile.stage import Stage, better


class Best(NamedTuple):
    """Each lane's best point of the learning curve so far."""

    theta: Float[Tensor, "S d"]
    memory: InnerState
    score: Float[Tensor, "S"]
    """NaN before the first."""
    step: Int[Tensor, "S"]


class TrainState(NamedTuple):
    """All that one iteration hands to the next, for S lanes."""

    step: int
    theta: Float[Tensor, "S d"]
    memory: InnerState
    diverged_at: Int[Tensor, "S"]
    """Iteration at which a lane stopped being finite, and was left where it had been; -1 for a lane that lives."""
    best: Best

    @property
    def alive(self) -> bool:
        """Whether a lane is left that has not diverged."""
        return bool((self.diverged_at < 0).any())

    @staticmethod
    def fresh(stage: Stage) -> "TrainState":
        theta = torch.stack([stage.learner.init(lane.seed) for lane in stage.exp.lanes]).to(stage.device)
        memory = InnerState.empty(theta)
        never = torch.full((len(theta),), -1, device=stage.device)
        return TrainState(0, theta, memory, never, Best(theta, memory, torch.full_like(theta[:, 0], torch.nan), never))

    def advance(self, proposal: Proposal, lr: Float[Tensor, "S"]) -> "TrainState":
        """theta + lr * direction, except in lanes that have diverged, now or before."""
        step = self.step + 1
        theta = self.theta + lr[:, None] * proposal.direction
        finite = theta.isfinite().all(-1) & proposal.memory.square.isfinite().all(-1)
        alive = self.diverged_at < 0
        if bool((alive & finite).all()):  # nearly always, and then nothing needs to be put together
            return self._replace(step=step, theta=theta, memory=proposal.memory)
        return self._replace(
            step=step,
            theta=_where(alive & finite, theta, self.theta),
            memory=InnerState(*map(partial(_where, alive & finite), proposal.memory, self.memory)),
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
        }

    def as_lead(self, workers: Workers) -> "TrainState":
        """The state of the worker that has read the checkpoint."""
        step, *tensors = workers.as_lead([torch.tensor(self.step, device=self.theta.device), *self.tensors().values()])
        return self.restored(int(step), dict(zip(self.tensors(), tensors, strict=True)))

    def restored(self, step: int, tensors: Mapping[str, Tensor]) -> "TrainState":
        """The state that a checkpoint kept, if it fits this one."""
        if _forms(tensors) != _forms(self.tensors()):
            raise RunError(f"the checkpoint of step {step} does not belong to this experiment: remove its folder")
        # Copies, because what is read from a file need not be aligned as kernels like it.
        kept = {name: tensors[name].clone().to(self.theta.device) for name in self.tensors()}
        best = Best(
            kept["best.theta"],
            InnerState(kept["best.memory.square"], kept["best.memory.steps"]),
            kept["best.score"],
            kept["best.step"],
        )
        memory = InnerState(kept["memory.square"], kept["memory.steps"])
        return TrainState(step, kept["theta"], memory, kept["diverged_at"], best)


def _where(lanes: Tensor, new: Tensor, old: Tensor) -> Tensor:
    """The new rows in these lanes, the old ones in the others."""
    return torch.where(lanes.view(-1, *[1] * (new.ndim - 1)), new, old)


def _forms(tensors: Mapping[str, Tensor]) -> dict[str, tuple[torch.Size, torch.dtype]]:
    return {name: (tensor.shape, tensor.dtype) for name, tensor in tensors.items()}
