"""The outer loop, read from top to bottom."""

import ctypes
import logging
import math
import time
from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import Tensor

from eigen_reptile.compiled import OPTIONS, Compiled, compiled
from eigen_reptile.config import Experiment
from eigen_reptile.evaluate import Start, fit_one, interval95
from eigen_reptile.methods import Iteration, Proposal
from eigen_reptile.noise import noisy_draws
from eigen_reptile.progress import Report, silent
from eigen_reptile.runs import RunLog
from eigen_reptile.stage import Stage, validate
from eigen_reptile.state import TrainState
from eigen_reptile.streams import lent_streams
from eigen_reptile.tasks import Batches, Tasks, draw_batches, sample_tasks, whole_batches

log = logging.getLogger(__name__)

Propose = Callable[[Iteration], Proposal]
"""A method's `propose`, as it is or compiled."""

LOG_EVERY = 50
AHEAD_BYTES = 2**20
"""What iterations that are drawn together may take: one on pictures takes more than that by itself."""
CHECKPOINT_SECONDS = 120
"""No more than this much of the work is lost on a crash, however slow the iterations are."""


@torch.no_grad()
def train(stage: Stage, run: RunLog, checkpoint_every: int, report: Report) -> TrainState:
    """Train all lanes of the experiment, from the run folder's newest checkpoint if it has one."""
    settle_machine()
    exp = stage.exp
    propose = maybe_compiled(stage)
    state = TrainState.fresh(stage)
    if (checkpoint := run.load_checkpoint()) is not None:
        state = state.restored(checkpoint.step, checkpoint.tensors)
    state = state.as_lead(stage.workers)
    seconds = 0.0
    if state.step == 0:
        run.start_metrics(-1)
        state, _ = _observe(stage, run, state, seconds)
    else:
        run.start_metrics(state.step)
        report(state.step, {})
        if not finished(exp, state):
            log.info("continuing after iteration %d", state.step)
        seconds = max((line.get("seconds", 0.0) for line in run.metrics()), default=0.0)

    data = training_data_from(stage, state.step)
    started, first = time.monotonic(), state.step
    saved = started
    while not finished(exp, state):
        began = time.monotonic()
        state, proposal = iterate(stage, propose, state, *next(data))
        seconds += _since(began)
        state, metrics = _observe(stage, run, state, seconds)
        last = finished(exp, state)
        if state.step % LOG_EVERY == 0 or last:
            rates = _rates(exp, (state.step - first) / _since(started))
            summary = _summary(exp, proposal, state) | rates
            run.log("train", state.step, summary | {"seconds": round(seconds, 2)})
            metrics |= summary
        if state.step % checkpoint_every == 0 or _since(saved) > CHECKPOINT_SECONDS or last:
            run.save_checkpoint(state.step, {name: tensor.cpu() for name, tensor in state.tensors().items()})
            saved = time.monotonic()
        report(state.step, metrics)
    if not state.alive:
        log.warning("every lane has diverged by iteration %d: stopped there", state.step)
    elif state.step < exp.meta.steps:
        log.info("no better than iteration %d for %d validations: stopped", state.best.step.max(), exp.meta.patience)
    return state


def finished(exp: Experiment, state: TrainState) -> bool:
    """Whether the last iteration is done, every lane has diverged, or none has got better for too long."""
    alive = state.diverged_at < 0
    since_best = (state.step - state.best.step)[alive]
    stale = exp.meta.patience > 0 and bool((since_best >= exp.meta.patience * exp.evaluation.every).all())
    return state.step >= exp.meta.steps or not state.alive or stale


def iterate(
    stage: Stage, propose: Propose, state: TrainState, tasks: Tasks, batches: Batches
) -> tuple[TrainState, Proposal]:
    """One outer iteration of all lanes, on the data of its step."""
    step = torch.tensor(state.step, device=stage.device)
    own = propose(Iteration(stage.learner, state.theta, state.memory, tasks, batches, stage.exp.inner, step))
    proposal = stage.exp.method.settled(_averaged(own, tasks.x.shape[1], stage))
    rates = [stage.exp.meta.lr_at(lane.lr, state.step) for lane in stage.exp.lanes]
    lr, running = state.theta.new_tensor(rates), stage.running(state.theta)
    return state.advance(proposal, lr, stage.exp.meta, running), proposal


def _averaged(own: Proposal, tasks: int, stage: Stage) -> Proposal:
    """The proposal of all workers' tasks, out of that of this worker's."""
    if stage.workers.count == 1:
        return own
    totals = stage.workers.summed([tensor * tasks for tensor in own.tensors()])
    return own.with_tensors(totals).over(stage.exp.meta.batch)


def training_data_from(stage: Stage, step: int) -> Iterator[tuple[Tasks, Batches]]:
    """The data of one iteration after the other: where they are small, those of many are drawn together."""
    first = training_data(stage, step)
    yield first
    ahead = max(1, AHEAD_BYTES // sum(part.nbytes for parts in first for part in parts))
    while True:
        yield from _data_of(stage, range(step + 1, step + 1 + ahead))
        step += ahead


def training_data(stage: Stage, step: int) -> tuple[Tasks, Batches]:
    """This worker's tasks and mini-batches of one iteration; lanes of the same seed get the same."""
    (found,) = _data_of(stage, range(step, step + 1))
    return found


def _data_of(stage: Stage, steps: range) -> Iterator[tuple[Tasks, Batches]]:
    """The same of several iterations, which are drawn as if they were lanes."""
    exp = stage.exp
    task_rngs, batch_rngs = lent_streams(exp.seeds, "tasks", steps), lent_streams(exp.seeds, "batches", steps)
    bank, count, place = stage.banks.train, exp.meta.batch, (stage.device, exp.dtype)
    if exp.task.epochs:
        addresses = [(seed, step) for step in steps for seed in exp.seeds]
        tasks = whole_batches(bank, exp.task.samples, count, addresses, task_rngs, *place)
    else:
        tasks = sample_tasks(bank, stage.training, count, task_rngs, *place)
    batches = draw_batches(tasks, exp.method.batches(exp.inner), exp.inner.batch, batch_rngs)
    if stage.flips is not None:
        tasks, batches = noisy_draws(tasks, batches, stage.flips, batch_rngs, exp.method.wants_queries)
    share = list(stage.workers.share(exp.meta.batch))
    if len(share) < exp.meta.batch:
        tasks, batches = Tasks(*(part[:, share] for part in tasks)), Batches(*(part[:, share] for part in batches))
    copies = len(exp.meta.lr)

    def by_step(part: Tensor) -> Tensor:
        lanes = part.unflatten(0, (len(steps), len(exp.seeds)))
        return lanes if copies == 1 else torch.cat([lanes] * copies, dim=1)  # ordered by step size, then by seed

    own_tasks, own_batches = (zip(*map(by_step, parts), strict=True) for parts in (tasks, batches))
    return zip(map(Tasks._make, own_tasks), map(Batches._make, own_batches), strict=True)


def settle_machine() -> None:
    """Settings of the process, without which training takes up to twice as long on a CPU.

    Numbers below 1e-38, of which Adam's squares of small gradients are full, are taken for zero, because the
    arithmetic is many times slower on them. And the C library, where it can be told so, keeps large blocks that are
    freed: otherwise each iteration gives its buffers back to the kernel and faults them in again, page by page.
    """
    torch.set_flush_denormal(True)
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return  # not glibc
    trim_threshold, top_pad, mmap_threshold = -1, -2, -3
    mallopt(trim_threshold, 2**31 - 1)
    mallopt(mmap_threshold, 2**30)
    mallopt(top_pad, 2**26)  # as large as the heaps of threads, which are then kept even where they are empty


def maybe_compiled(stage: Stage) -> Propose:
    """The method's `propose`, compiled as a whole if all tasks' networks run as one, or else in part."""
    exp, plain, required = stage.exp, stage.exp.method.propose, stage.exp.compile == "on"
    on_cpu = stage.device.type == "cpu"
    if not exp.compiles:
        return plain
    if exp.model.batched:
        return Compiled(compiled(plain, dynamic=False, options=OPTIONS if on_cpu else None), plain, required)
    return exp.method.compiled(required).propose if on_cpu else plain


def _observe(stage: Stage, run: RunLog, state: TrainState, seconds: float) -> tuple[TrainState, dict[str, float]]:
    """Log the learning curve and the figure's curves where they are due, and note which step was the best.

    Training has taken so many seconds by now, without what is spent here.
    """
    exp = stage.exp
    config = exp.evaluation
    start = Start(state.theta, state.memory, exp.inner, exp.method)
    metrics: dict[str, float] = {}
    if state.step % config.every == 0 or state.step == exp.meta.steps:
        values = validate(stage, start, config.monitor_tasks, silent("", 0)).values[:, :, -1]
        state = state.judged(exp, torch.from_numpy(values.mean(1)).to(state.theta))
        lanes = [_number(value, diverged) for value, diverged in zip(values.mean(1), state.diverged_at, strict=True)]
        alive = values[(state.diverged_at < 0).cpu().numpy()]
        if alive.size and np.isfinite(alive).all():
            mean, half = interval95(alive.mean(0))
            metrics = {"score": mean} | ({"ci95": half} if math.isfinite(half) else {})
        run.log("validation", state.step, {**metrics, "scores": lanes, "seconds": round(seconds, 2)})
    if state.step in config.pictures and not exp.data.classifies:
        curves = fit_one(stage.learner, stage.banks.validation, start, config, stage.validation)
        fit = {name: part.round(4).tolist() for name, part in curves._asdict().items()}
        fit["curves"] = [curves if np.isfinite(curves).all() else None for curves in fit["curves"]]
        run.log("picture", state.step, fit)
    return state, metrics


def _rates(exp: Experiment, iterations_per_second: float) -> dict[str, float]:
    of_task = exp.inner.steps * exp.inner.batch + exp.task.way * exp.task.queries
    samples = len(exp.lanes) * exp.meta.batch * of_task
    what = "images" if exp.data.classifies else "samples"
    return {
        "iterations_per_second": iterations_per_second,
        f"{what}_per_second": samples * iterations_per_second,
    }


def _number(error: float, diverged_at: Tensor) -> float | None:
    """The error, rounded as it is worth keeping, or None where there is none."""
    return float(f"{error:.6g}") if int(diverged_at) < 0 and math.isfinite(error) else None


def _summary(exp: Experiment, proposal: Proposal, state: TrainState) -> dict[str, float]:
    """Medians over the lanes that live, so that one about to diverge does not hide the others."""
    alive = (state.diverged_at < 0).cpu()
    living = {name: values.cpu()[alive].double().numpy() for name, values in proposal.stats.items()}
    finite = {name: values[np.isfinite(values)] for name, values in living.items()}
    medians = {name: float(np.median(values)) for name, values in finite.items() if values.size}
    return exp.method.summary(medians) | {"lanes_alive": float(alive.sum())}


def _since(moment: float) -> float:
    return max(time.monotonic() - moment, 1e-9)
