"""The state that one outer iteration passes to the next, and how it advances."""

from collections.abc import Mapping
from functools import partial
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from eigen_reptile.errors import RunError
from eigen_reptile.inner import InnerState
from eigen_reptile.methods import MetaUpdate
from eigen_reptile.methods.method import initial_theta
from eigen_reptile.nn.running_norm import MOMENTUM
from eigen_reptile.runtime.distributed import Workers
from eigen_reptile.training.config import Experiment, MetaConfig
from eigen_reptile.training.old_formats import upgrade_tensors
from eigen_reptile.training.setup import Setup, is_better

BETA1, BETA2, EPS = 0.9, 0.999, 1e-8
"""Hyper-parameters of Adam in the outer loop."""


class BestSoFar(NamedTuple):
    """The best point of each replica's learning curve so far."""

    theta: Float[Tensor, "S D"]
    inner_state: InnerState
    score: Float[Tensor, "S"]
    """NaN before the first."""
    step: Int[Tensor, "S"]


class OuterState(NamedTuple):
    """The state of the outer optimiser; empty unless it is Adam."""

    first: Float[Tensor, "S M"]
    """Adam's first moment of the directions."""
    second: Float[Tensor, "S M"]
    """Adam's second moment."""

    @staticmethod
    def fresh(theta: Float[Tensor, "S D"], meta: MetaConfig) -> "OuterState":
        size = theta.shape[1] if meta.optimizer == "adam" else 0
        return OuterState(theta.new_zeros(len(theta), size), theta.new_zeros(len(theta), size))

    def step(
        self, direction: Float[Tensor, "S D"], meta: MetaConfig, number: int
    ) -> tuple[Float[Tensor, "S D"], "OuterState"]:
        """The step in this direction, without the step size, and the state afterwards; `number` counts iterations from
        1."""
        if meta.clip is not None:
            direction = direction.clamp(-meta.clip, meta.clip)
        if meta.optimizer == "step":
            return direction, self
        first = self.first.lerp(direction, 1 - BETA1)
        second = self.second.lerp(direction.square(), 1 - BETA2)
        root = (second / (1 - BETA2**number)).sqrt()
        return first / (1 - BETA1**number) / (root + EPS), OuterState(first, second)


class TrainState(NamedTuple):
    """Everything that one outer iteration passes to the next, for S replicas."""

    step: int
    theta: Float[Tensor, "S D"]
    inner_state: InnerState
    diverged_at: Int[Tensor, "S"]
    """Iteration at which a replica became non-finite and was frozen at its last finite state; -1 if it has not."""
    best: BestSoFar
    outer: OuterState

    @property
    def alive(self) -> bool:
        """Whether any replica has not diverged."""
        return bool((self.diverged_at < 0).any())

    @staticmethod
    def fresh(setup: Setup) -> "TrainState":
        method, network, replicas = setup.exp.method, setup.network, setup.exp.replicas
        theta = torch.stack([initial_theta(method, network, replica.seed, setup.spec) for replica in replicas])
        theta = theta.to(setup.device)
        inner_state = InnerState.empty(theta[:, : network.d])
        never = torch.full((len(theta),), -1, device=setup.device)
        best = BestSoFar(theta, inner_state, torch.full_like(theta[:, 0], torch.nan), never)
        return TrainState(0, theta, inner_state, never, best, OuterState.fresh(theta, setup.exp.meta))

    def advanced(
        self, update: MetaUpdate, lr: Float[Tensor, "S"], meta: MetaConfig, running: Bool[Tensor, "D"] | None = None
    ) -> "TrainState":
        """theta + lr * direction, or what the outer optimiser makes of it, except in replicas that have diverged.

        Running statistics (where `running` is true) follow their directions at a rate of their own.
        """
        number = self.step + 1
        direction = update.direction
        step, outer = self.outer.step(direction, meta, number)
        theta = self.theta + lr[:, None] * step
        if running is not None:
            theta = torch.where(running, self.theta + MOMENTUM * direction, theta)
        finite = _rows_are_finite(theta) & _rows_are_finite(update.inner_state.square)
        alive = self.diverged_at < 0
        if bool((alive & finite).all()):  # nearly always, and then nothing has to be merged
            return self._replace(step=number, theta=theta, inner_state=update.inner_state, outer=outer)
        return self._replace(
            step=number,
            theta=_merge_rows(alive & finite, theta, self.theta),
            inner_state=InnerState(*map(partial(_merge_rows, alive & finite), update.inner_state, self.inner_state)),
            outer=OuterState(*map(partial(_merge_rows, alive & finite), outer, self.outer)),
            diverged_at=torch.where(alive & ~finite, number, self.diverged_at),
        )

    def with_score(self, exp: Experiment, score: Float[Tensor, "S"]) -> "TrainState":
        """The state with `best` updated by the validation scores of this step."""
        new = (self.diverged_at < 0) & (is_better(exp, score, self.best.score) | self.best.score.isnan())
        now = BestSoFar(self.theta, self.inner_state, score, torch.full_like(self.best.step, self.step))
        inner_state = InnerState(*map(partial(_merge_rows, new), now.inner_state, self.best.inner_state))
        theta, score, step = (
            _merge_rows(new, ours, best)
            for ours, best in ((now.theta, self.best.theta), (now.score, self.best.score), (now.step, self.best.step))
        )
        return self._replace(best=BestSoFar(theta, inner_state, score, step))

    def tensors(self) -> dict[str, Tensor]:
        """What a checkpoint stores."""
        return {
            "theta": self.theta,
            "inner_state.square": self.inner_state.square,
            "inner_state.steps": self.inner_state.steps,
            "diverged_at": self.diverged_at,
            "best.theta": self.best.theta,
            "best.inner_state.square": self.best.inner_state.square,
            "best.inner_state.steps": self.best.inner_state.steps,
            "best.score": self.best.score,
            "best.step": self.best.step,
            "outer.first": self.outer.first,
            "outer.second": self.outer.second,
        }

    def broadcast(self, workers: Workers) -> "TrainState":
        """The lead's state, which has read the checkpoint, on all workers."""
        step, *tensors = workers.broadcast(
            [torch.tensor(self.step, device=self.theta.device), *self.tensors().values()]
        )
        return self.restored(int(step), dict(zip(self.tensors(), tensors, strict=True)))

    def restored(self, step: int, tensors: Mapping[str, Tensor]) -> "TrainState":
        """The state in a checkpoint, if its tensors have the shapes and types of this one's."""
        tensors = upgrade_tensors(tensors)
        if _shapes_and_dtypes(tensors) != _shapes_and_dtypes(self.tensors()):
            raise RunError(
                f"the checkpoint of step {step} has other parameters than this experiment's network and data"
            )
        # Copies, because what is read from a file may not be aligned as kernels prefer it.
        kept = {name: tensors[name].clone().to(self.theta.device) for name in self.tensors()}
        best = BestSoFar(
            kept["best.theta"],
            InnerState(kept["best.inner_state.square"], kept["best.inner_state.steps"]),
            kept["best.score"],
            kept["best.step"],
        )
        inner_state = InnerState(kept["inner_state.square"], kept["inner_state.steps"])
        outer = OuterState(kept["outer.first"], kept["outer.second"])
        return TrainState(step, kept["theta"], inner_state, kept["diverged_at"], best, outer)


def _rows_are_finite(rows: Float[Tensor, "S D"]) -> Bool[Tensor, "S"]:
    """Whether all numbers of each row are finite, by their sum: much faster than testing each."""
    return rows.sum(-1).isfinite()


def _merge_rows(replicas: Tensor, new: Tensor, old: Tensor) -> Tensor:
    """The new rows in these replicas, the old ones in the others."""
    return torch.where(replicas.view(-1, *[1] * (new.ndim - 1)), new, old)


def _shapes_and_dtypes(tensors: Mapping[str, Tensor]) -> dict[str, tuple[torch.Size, torch.dtype]]:
    return {name: (tensor.shape, tensor.dtype) for name, tensor in tensors.items()}
