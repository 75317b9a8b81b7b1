"""The outer loop, read from top to bottom."""

import ctypes
import logging
import math
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from eigen_reptile.config import Experiment
from eigen_reptile.data import Bank
from eigen_reptile.evaluate import evaluate, fit_one
from eigen_reptile.inner import InnerState
from eigen_reptile.learner import Learner
from eigen_reptile.methods import MetaUpdate
from eigen_reptile.runs import RunDir, RunError
from eigen_reptile.streams import stream
from eigen_reptile.tasks import Batches, Tasks, draw_batches, sample_tasks

log = logging.getLogger(__name__)

LOG_EVERY = 100
COMPILE_FROM = 3000
"""Outer iterations from which on compiling pays."""

Progress = Callable[[int, Mapping[str, float]], None]
"""Told the number of finished iterations and the newest metrics."""


class TrainState(NamedTuple):
    """All that one iteration hands to the next, for S lanes."""

    step: int
    theta: Float[Tensor, "S d"]
    memory: InnerState
    diverged_at: Int[Tensor, "S"]
    """Iteration at which a lane stopped being finite, and was left where it had been; -1 for a lane that lives."""

    @property
    def alive(self) -> bool:
        """Whether a lane is left that has not diverged."""
        return bool((self.diverged_at < 0).any())

    @staticmethod
    def fresh(learner: Learner, seeds: list[int]) -> "TrainState":
        theta = torch.stack([learner.init(seed) for seed in seeds])
        return TrainState(0, theta, InnerState.empty(theta), torch.full((len(seeds),), -1))

    def advance(self, update: MetaUpdate, lr: Float[Tensor, "S"]) -> "TrainState":
        """theta + lr * direction, except in lanes that have diverged, now or before."""
        step = self.step + 1
        theta = self.theta + lr[:, None] * update.direction
        finite = theta.isfinite().all(-1) & update.memory.square.isfinite().all(-1)
        alive = self.diverged_at < 0
        moves = alive & finite
        memory = InnerState(
            torch.where(moves[:, None], update.memory.square, self.memory.square),
            torch.where(moves, update.memory.steps, self.memory.steps),
        )
        return TrainState(
            step=step,
            theta=torch.where(moves[:, None], theta, self.theta),
            memory=memory,
            diverged_at=torch.where(alive & ~finite, step, self.diverged_at),
        )

    def tensors(self) -> dict[str, Tensor]:
        """What a checkpoint keeps."""
        return {
            "theta": self.theta,
            "memory.square": self.memory.square,
            "memory.steps": self.memory.steps,
            "diverged_at": self.diverged_at,
        }

    def restored(self, step: int, tensors: Mapping[str, Tensor]) -> "TrainState":
        """The state that a checkpoint kept, if it fits this one."""
        if _forms(tensors) != _forms(self.tensors()):
            raise RunError(f"the checkpoint of step {step} does not belong to this experiment: remove its folder")
        # Copies, because what is read from a file need not be aligned as kernels like it.
        theta, square, steps, diverged_at = (tensors[name].clone() for name in self.tensors())
        return TrainState(step, theta, InnerState(square, steps), diverged_at)


@torch.no_grad()
def train(
    exp: Experiment, learner: Learner, bank: Bank, run: RunDir, checkpoint_every: int, progress: Progress
) -> TrainState:
    """Train all lanes of the experiment, from the run folder's newest checkpoint if it has one."""
    keep_freed_memory()
    meta_update = maybe_compiled(exp)
    state = TrainState.fresh(learner, [lane.seed for lane in exp.lanes])
    checkpoint = run.load_checkpoint()
    if checkpoint is None:
        run.start_metrics(-1)
        _observe(exp, learner, bank, run, state)
    else:
        state = state.restored(checkpoint.step, checkpoint.tensors)
        run.start_metrics(state.step)
        log.info("continuing after iteration %d", state.step)

    started, first = time.monotonic(), state.step
    while state.step < exp.meta.steps and state.alive:
        state, update = iterate(exp, learner, bank, meta_update, state)
        last = state.step == exp.meta.steps or not state.alive
        metrics: dict[str, float] = {}
        if state.step % LOG_EVERY == 0 or last:
            metrics = _summary(update, state) | {"iterations_per_second": (state.step - first) / _since(started)}
            run.log("train", state.step, metrics)
        _observe(exp, learner, bank, run, state)
        if state.step % checkpoint_every == 0 or last:
            run.save_checkpoint(state.step, state.tensors())
        progress(state.step, metrics)
    if not state.alive:
        log.warning("every lane has diverged by iteration %d: stopped there", state.step)
    return state


def iterate(
    exp: Experiment, learner: Learner, bank: Bank, meta_update: Callable[..., MetaUpdate], state: TrainState
) -> tuple[TrainState, MetaUpdate]:
    """One outer iteration of all lanes."""
    tasks, batches = training_data(exp, bank, state.step)
    update = meta_update(learner, state.theta, state.memory, tasks, batches, exp.inner)
    rates = [exp.meta.lr_at(lane.lr, state.step) for lane in exp.lanes]
    return state.advance(update, torch.tensor(rates, dtype=state.theta.dtype)), update


def training_data(exp: Experiment, bank: Bank, step: int) -> tuple[Tasks, Batches]:
    """The tasks and mini-batches of one iteration; lanes of the same seed get the same."""
    task_rngs = [stream(seed, "tasks", step) for seed in exp.seeds]
    batch_rngs = [stream(seed, "batches", step) for seed in exp.seeds]
    tasks = sample_tasks(bank, exp.task.shots, exp.meta.batch, task_rngs)
    batches = draw_batches(tasks, exp.inner.steps, exp.inner.batch, batch_rngs)
    copies = len(exp.meta.lr)  # lanes are ordered by step size, then by seed
    if copies == 1:
        return tasks, batches
    return Tasks(*(torch.cat([part] * copies) for part in tasks)), Batches(
        *(torch.cat([part] * copies) for part in batches)
    )


def keep_freed_memory() -> None:
    """Let the C library keep large blocks that are freed, where it can be told so.

    Otherwise each iteration gives its buffers back to the kernel and faults them in again, page by page, which
    takes longer than the arithmetic of a small network.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return  # not glibc
    trim_threshold, mmap_threshold = -1, -3
    mallopt(trim_threshold, 2**31 - 1)
    mallopt(mmap_threshold, 2**30)


def maybe_compiled(exp: Experiment) -> Callable[..., MetaUpdate]:
    """The method's `meta_update`, compiled if the experiment asks for it or would gain from it."""
    plain = exp.method.meta_update
    if exp.compile == "off" or (exp.compile == "auto" and exp.meta.steps < COMPILE_FROM):
        return plain
    compiled: Callable[..., MetaUpdate] = torch.compile(plain, dynamic=False)
    if exp.compile == "on":
        return compiled
    chosen = compiled

    def with_fallback(*args: Any) -> MetaUpdate:
        nonlocal chosen
        try:
            return chosen(*args)
        except Exception as error:  # whatever a missing or unfit compiler raises
            if chosen is plain:
                raise
            log.warning("torch.compile does not work here (%s): going on without", type(error).__name__)
            chosen = plain
            return plain(*args)

    return with_fallback


def _observe(exp: Experiment, learner: Learner, bank: Bank, run: RunDir, state: TrainState) -> None:
    """Log the learning curve and the figure's curves where they are due."""
    where = (learner, bank, state.theta, state.memory, exp.inner, exp.evaluation)
    if state.step % exp.evaluation.every == 0 or state.step == exp.meta.steps:
        errors = evaluate(*where, "validation", exp.evaluation.monitor_tasks).of_lanes()[:, -1]
        lanes = [_number(error, diverged) for error, diverged in zip(errors, state.diverged_at, strict=True)]
        alive = [error for error in lanes if error is not None]
        mean = {"mean_error": sum(alive) / len(alive)} if alive else {}
        run.log("validation", state.step, {**mean, "error": lanes})
    if state.step in exp.evaluation.pictures:
        fit = {name: part.round(4).tolist() for name, part in fit_one(*where)._asdict().items()}
        fit["curves"] = [curves if np.isfinite(curves).all() else None for curves in fit["curves"]]
        run.log("picture", state.step, fit)


def _forms(tensors: Mapping[str, Tensor]) -> dict[str, tuple[torch.Size, torch.dtype]]:
    return {name: (tensor.shape, tensor.dtype) for name, tensor in tensors.items()}


def _number(error: float, diverged_at: Tensor) -> float | None:
    """The error, rounded as it is worth keeping, or None where there is none."""
    return float(f"{error:.6g}") if int(diverged_at) < 0 and math.isfinite(error) else None


def _summary(update: MetaUpdate, state: TrainState) -> dict[str, float]:
    """Medians over the lanes that live, so that one about to diverge does not hide the others."""
    alive = state.diverged_at < 0
    medians = {name: float(values[alive].double().nanmedian()) for name, values in update.stats.items()}
    finite = {name: median for name, median in medians.items() if math.isfinite(median)}
    return finite | {"lanes_alive": float(alive.sum())}


def _since(moment: float) -> float:
    return max(time.monotonic() - moment, 1e-9)
