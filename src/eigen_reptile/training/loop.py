"""The outer loop, to be read from top to bottom."""

import logging
import math
import time
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from eigen_reptile.errors import RunError
from eigen_reptile.methods import MetaBatch, MetaUpdate
from eigen_reptile.methods.wrappers.sample_selection import selection_scores
from eigen_reptile.runtime.checkpoints import Clock, progress_is_saved
from eigen_reptile.runtime.interruption import interrupted_at, uninterrupted
from eigen_reptile.runtime.process import configure_process
from eigen_reptile.runtime.progress import ReportProgress, StartProgress, no_progress, phase
from eigen_reptile.runtime.run_folder import RunLog
from eigen_reptile.tasks import Batches, Tasks
from eigen_reptile.training.config import Experiment
from eigen_reptile.training.data import TrainingData
from eigen_reptile.training.evaluate import interval95
from eigen_reptile.training.held_out import validate
from eigen_reptile.training.illustrate import fit_curves
from eigen_reptile.training.setup import Setup
from eigen_reptile.training.state import TrainState

log = logging.getLogger(__name__)

UpdateFunction = Callable[[MetaBatch], MetaUpdate]
"""A method's `meta_update`, compiled or not."""

LOG_EVERY = 50
CHECKPOINT_SECONDS = 120
"""Time between checkpoints: no more than this is lost on a crash, however slow the iterations are."""


class CompletedIteration(NamedTuple):
    """The state after a complete iteration, or before the first."""

    state: TrainState
    seconds: float
    """Training time so far, without validation."""
    metrics: Mapping[str, float]
    """The statistics of the iteration."""
    is_last: bool


@torch.no_grad()
def train(
    setup: Setup, run: RunLog, checkpoint_every: int, report: ReportProgress, start_progress: StartProgress
) -> TrainState:
    """Train all replicas of the experiment, from the newest checkpoint of the run folder if it has one.

    On KeyboardInterrupt, the last complete iteration is saved first: the next start loses no more than the one that was
    interrupted.
    """
    configure_process()
    entered = time.monotonic()
    state, clock = _newest_state(setup, run)
    state = _start_log(setup, run, state, clock.training, report, start_progress)
    complete = CompletedIteration(state, clock.training, {}, finished(setup.exp, state))
    first, saved = state.step, time.monotonic()
    iterations = _iterations(setup, run, complete)
    try:
        with progress_is_saved():
            for complete in iterations:
                step = complete.state.step
                if step % checkpoint_every == 0 or _seconds_since(saved) > CHECKPOINT_SECONDS or complete.is_last:
                    _save(run, complete, clock.total + _seconds_since(entered))
                    saved = time.monotonic()
                report(step, complete.metrics)
    except KeyboardInterrupt as interruption:
        with uninterrupted():
            step = complete.state.step
            run.start_metrics(step)  # drops what was logged of the interrupted iteration
            if step > first:
                _save(run, complete, clock.total + _seconds_since(entered))
        raise interrupted_at(f"after iteration {step}", interruption) from interruption
    _log_why_stopped(setup.exp, complete.state)
    return complete.state


def _newest_state(setup: Setup, run: RunLog) -> tuple[TrainState, Clock]:
    """The state and the clock of the newest checkpoint, or of a new run."""
    state, clock = TrainState.fresh(setup), Clock()
    if (checkpoint := run.load_checkpoint()) is not None:
        state, clock = state.restored(checkpoint.step, checkpoint.tensors), checkpoint.clock
        steps = setup.exp.meta.steps
        if state.step > steps:
            raise RunError(f"the checkpoint of step {state.step} is not of this run, which has {steps} steps")
    return state.broadcast(setup.workers), clock


def _start_log(
    setup: Setup, run: RunLog, state: TrainState, seconds: float, report: ReportProgress, start_progress: StartProgress
) -> TrainState:
    """Begin or continue the metrics; a new run is validated before its first iteration."""
    if state.step == 0:
        run.start_metrics(-1)
        with phase(start_progress, "validation before the first iteration"):
            state, _ = _validate_and_log(setup, run, state, seconds)
    else:
        run.start_metrics(state.step)
        report(state.step, {})
        if not finished(setup.exp, state):
            log.info("continuing after iteration %d", state.step)
    return state


def _iterations(setup: Setup, run: RunLog, latest: CompletedIteration) -> Iterator[CompletedIteration]:
    """Iterate to the end, validating and logging where it is due."""
    exp, meta_update = setup.exp, update_function(setup)
    state, seconds, _, is_last = latest
    data = TrainingData(setup).after(state.step)
    started, first = time.monotonic(), state.step
    while not is_last:
        began = time.monotonic()
        state, update = iterate(setup, meta_update, state, *next(data))
        seconds += _seconds_since(began)
        if state.step == first + 1:
            run.amend_environment({"compiled": setup.compiled})
        state, metrics = _validate_and_log(setup, run, state, seconds)
        is_last = finished(exp, state)
        if state.step % LOG_EVERY == 0 or is_last:
            throughput = _throughput(exp, (state.step - first) / _seconds_since(started))
            summary = _training_statistics(update, state) | throughput
            run.log("train", state.step, summary | {"seconds": round(seconds, 2)})
            metrics |= summary
        yield CompletedIteration(state, seconds, metrics, is_last)


def _save(run: RunLog, complete: CompletedIteration, total_seconds: float) -> None:
    tensors = {name: tensor.cpu() for name, tensor in complete.state.tensors().items()}
    run.save_checkpoint(complete.state.step, tensors, Clock(complete.seconds, total_seconds))


def _log_why_stopped(exp: Experiment, state: TrainState) -> None:
    """Say why training ended before its last iteration, if it did."""
    if not state.alive:
        log.warning("every replica had diverged by iteration %d: stopped there", state.step)
    elif state.step < exp.meta.steps:
        best = state.best.step.max()
        log.info("no improvement on iteration %d in %d validations: stopped", best, exp.meta.patience)


def finished(exp: Experiment, state: TrainState) -> bool:
    """Whether the last iteration is done, every replica has diverged, or none has improved for too long."""
    alive = state.diverged_at < 0
    since_best = (state.step - state.best.step)[alive]
    stale = exp.meta.patience > 0 and bool((since_best >= exp.meta.patience * exp.evaluation.every).all())
    return state.step >= exp.meta.steps or not state.alive or stale


def iterate(
    setup: Setup, meta_update: UpdateFunction, state: TrainState, tasks: Tasks, batches: Batches
) -> tuple[TrainState, MetaUpdate]:
    """One outer iteration of all replicas."""
    exp, step = setup.exp, torch.tensor(state.step, device=setup.device)
    batch = MetaBatch(setup.network, state.theta, state.inner_state, tasks, batches, exp.inner, step)
    update = _average_over_workers(meta_update(batch), batch.tasks_per_replica, setup)
    lr = state.theta.new_tensor([exp.meta.lr_at(replica.lr, state.step) for replica in exp.replicas])
    return state.advanced(update, lr, exp.meta, setup.running_statistics(state.theta)), update


def _average_over_workers(own: MetaUpdate, tasks: int, setup: Setup) -> MetaUpdate:
    """The average over the tasks of all workers, from that over this worker's tasks."""
    if setup.workers.count == 1:
        return own
    totals = setup.workers.all_reduce([tensor * tasks for tensor in own.tensors()])
    return own.with_tensors(totals).over(setup.exp.meta.batch)


def update_function(setup: Setup) -> UpdateFunction:
    """The method's `meta_update`: compiled as a whole if the networks of all tasks are batched.

    Otherwise `Network.compiler` compiles the parts of it that are worth it.
    """
    meta_update = setup.exp.method.meta_update
    if setup.compiler is None or not setup.network.batched:
        return meta_update
    return setup.compiler.compiled("meta-update", meta_update, meta_update)


def _validate_and_log(
    setup: Setup, run: RunLog, state: TrainState, seconds: float
) -> tuple[TrainState, dict[str, float]]:
    """Log the learning curve and the fitted curves when they are due, and keep the best initialisation so far.

    `seconds` is the training time so far, without what is spent here.
    """
    exp = setup.exp
    config = exp.evaluation
    initialisation = setup.initialisation(state.theta, state.inner_state)
    metrics: dict[str, float] = {}
    if state.step % config.every == 0 or state.step == exp.meta.steps:
        values = validate(setup, initialisation, config.monitor_tasks, no_progress("", 0)).counted[:, :, -1]
        state = state.with_score(exp, torch.from_numpy(values.mean(1)).to(state.theta))
        scores = [_rounded(value, diverged) for value, diverged in zip(values.mean(1), state.diverged_at, strict=True)]
        alive = values[(state.diverged_at < 0).cpu().numpy()]
        if alive.size and np.isfinite(alive).all():
            mean, half = interval95(alive.mean(0))
            metrics = {"score": mean} | ({"ci95": half} if math.isfinite(half) else {})
        run.log("validation", state.step, {**metrics, "scores": scores, "seconds": round(seconds, 2)})
    if state.step in config.snapshot_steps and not exp.data.is_classification:
        fit = fit_curves(setup.network, setup.banks.validation, initialisation, config, setup.validation)
        snapshot = {name: part.round(4).tolist() for name, part in fit._asdict().items()}
        snapshot["curves"] = [curves if np.isfinite(curves).all() else None for curves in snapshot["curves"]]
        run.log("snapshot", state.step, snapshot)
    return state, metrics


def _throughput(exp: Experiment, iterations_per_second: float) -> dict[str, float]:
    """Iterations per second, and samples passed through the network per second, of all replicas together."""
    what = "images" if exp.data.is_classification else "samples"
    samples = len(exp.replicas) * exp.meta.batch * samples_per_task(exp)
    return {
        "iterations_per_second": iterations_per_second,
        f"{what}_per_second": samples * iterations_per_second,
    }


def samples_per_task(exp: Experiment) -> int:
    """Samples of a training task that pass through the network in one outer iteration."""
    needs, inner = exp.method.requirements, exp.inner
    if not needs.inner_loop:
        return exp.task.samples
    batch = exp.task.support if inner.batch is None else inner.batch
    return inner.steps * batch + needs.selection_samples(inner) + exp.task.way * exp.task.queries


def _rounded(error: float, diverged_at: Tensor) -> float | None:
    """Six digits; None where a replica has diverged or the error is not finite."""
    return float(f"{error:.6g}") if int(diverged_at) < 0 and math.isfinite(error) else None


def _training_statistics(update: MetaUpdate, state: TrainState) -> dict[str, float]:
    """Medians over the replicas that have not diverged, so that one about to diverge does not hide the others."""
    alive = (state.diverged_at < 0).cpu()
    values_alive = {name: values.cpu()[alive].double().numpy() for name, values in update.means.items()}
    finite = {name: values[np.isfinite(values)] for name, values in values_alive.items()}
    medians = {name: float(np.median(values)) for name, values in finite.items() if values.size}
    return medians | selection_scores(medians) | {"replicas_alive": float(alive.sum())}


def _seconds_since(moment: float) -> float:
    return max(time.monotonic() - moment, 1e-9)
