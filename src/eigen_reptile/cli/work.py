"""Carries jobs out: in this process, in workers that share the tasks, side by side, or on a cluster."""

import contextlib
import logging
import os
from collections.abc import Sequence

import torch

from eigen_reptile.cli.options import Engine, Output, Work
from eigen_reptile.cli.output import logging_to_stderr, progress_bars
from eigen_reptile.distributed import Workers, joined, launch, launched, restarted
from eigen_reptile.experiment import run_folder
from eigen_reptile.files import RunError
from eigen_reptile.jobs import FAILURES, Job, Outcome, on_ray, side_by_side
from eigen_reptile.stage import found_device, prepare

log = logging.getLogger(__name__)


def carry_out(jobs: Sequence[Job], work: Work, output: Output, at_once: int = 1, engine: Engine = "here") -> Outcome:
    """All jobs; one that fails does not stop the others."""
    if work.workers > 1 and not launched():
        return _by_workers(jobs, work, output)
    if at_once > 1 or engine == "ray":
        with logging_to_stderr(output), progress_bars(output) as progress:
            if engine == "ray":
                return on_ray(jobs, progress.task)
            return side_by_side(jobs, at_once, progress.task)
    return _here(jobs, work, output)


def _here(jobs: Sequence[Job], work: Work, output: Output) -> Outcome:
    """One after the other, together with the other workers if this process is one."""
    outcome = Outcome({}, {})
    with contextlib.ExitStack() as stack:
        workers = stack.enter_context(joined(work.timeout, found_device(work.device).type == "cuda"))
        shown = output if workers.lead else Output(quiet=True)
        stack.enter_context(logging_to_stderr(shown))
        progress = stack.enter_context(progress_bars(shown))
        if workers.lead and restarted():
            log.warning("a worker has died: all were started again, and go on from the last checkpoint")
        for job in jobs:
            try:
                outcome.results[job.name] = job.run(progress.task, workers)
            except FAILURES as error:
                outcome.failed[job.name] = error
    return outcome


def _by_workers(jobs: Sequence[Job], work: Work, output: Output) -> Outcome:
    outcome, unfinished = Outcome({}, {}), []
    with logging_to_stderr(output), progress_bars(output) as progress:
        for job in jobs:  # what is wrong with a job is wrong before any worker is started
            if (job.folder / "result.json").exists():
                continue
            try:
                prepare(job.experiment, progress.task, work.device, Workers(count=work.workers))
                with run_folder(job.folder, job.experiment):
                    unfinished.append(job)
            except FAILURES as error:
                outcome.failed[job.name] = error
    if unfinished:
        launch(_worker, (unfinished, work, output), work.workers)
    for job in jobs:
        if job.name in outcome.failed:
            continue
        with run_folder(job.folder, job.experiment) as run:
            if found := run.result():
                outcome.results[job.name] = found
            else:
                outcome.failed[job.name] = RunError("the workers left no result")
    return outcome


def _worker(jobs: Sequence[Job], work: Work, output: Output) -> None:
    """What each of the processes does."""
    torch.set_num_threads(max(1, (os.cpu_count() or 1) // work.workers))
    for name, error in _here(jobs, work, output).failed.items():
        log.error("%s: %s", name, error)
