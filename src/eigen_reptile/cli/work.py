"""Carries experiments out: in this process, or in several that share the tasks."""

import contextlib
import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from eigen_reptile.cli.options import Output, Work
from eigen_reptile.cli.output import logging_to_stderr, progress_bars
from eigen_reptile.config import Experiment, to_json
from eigen_reptile.distributed import Workers, joined, launch, launched, restarted
from eigen_reptile.experiment import run_experiment
from eigen_reptile.runs import RunDir, RunError
from eigen_reptile.stage import found_device, prepare

log = logging.getLogger(__name__)


class Job(NamedTuple):
    """One experiment to be carried out in a folder."""

    name: str
    experiment: Experiment
    folder: Path


class Outcome(NamedTuple):
    results: dict[str, dict[str, Any]]
    failed: dict[str, RunError]


def carry_out(jobs: Sequence[Job], work: Work, output: Output) -> Outcome:
    """All jobs, one after the other; one that fails does not stop the others."""
    if work.workers == 1 or launched():
        return _here(jobs, work, output)
    with logging_to_stderr(output), progress_bars(output) as progress:
        for job in jobs:  # what is wrong with a job is wrong before any worker is started
            prepare(job.experiment, progress.task, work.device, Workers(count=work.workers))
            with RunDir.open(job.folder, to_json(job.experiment)):
                pass
    launch(_worker, (jobs, work, output), work.workers)
    outcome = Outcome({}, {})
    for job in jobs:
        with RunDir.open(job.folder, to_json(job.experiment)) as run:
            if found := run.result():
                outcome.results[job.name] = found
            else:
                outcome.failed[job.name] = RunError("the workers left no result")
    return outcome


def _worker(jobs: Sequence[Job], work: Work, output: Output) -> None:
    """What each of the processes does."""
    torch.set_num_threads(max(1, (os.cpu_count() or 1) // work.workers))
    outcome = _here(jobs, work, output)
    for name, error in outcome.failed.items():
        log.error("%s: %s", name, error)


def _here(jobs: Sequence[Job], work: Work, output: Output) -> Outcome:
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
                outcome.results[job.name] = run_experiment(
                    job.experiment, job.folder, progress.task, work.checkpoint_every, work.device, workers
                )
            except RunError as error:
                outcome.failed[job.name] = error
    return outcome
