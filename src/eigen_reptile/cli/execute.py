"""Run jobs: in this process, in workers that share the tasks of each job, in parallel processes, or on a cluster."""

import logging
import os
from collections.abc import Sequence

import torch

from eigen_reptile.cli.options import Engine, Work
from eigen_reptile.cli.output import logging_to_stderr, progress_bars
from eigen_reptile.cli.output_options import Output
from eigen_reptile.cli.streams import prepare_streams
from eigen_reptile.errors import RunError
from eigen_reptile.runtime.distributed import WorkerGroup, Workers, is_lead, is_restarted, is_worker
from eigen_reptile.runtime.job_processes import run_in_processes
from eigen_reptile.runtime.jobs import FAILURES, Outcome
from eigen_reptile.runtime.launcher import launch_workers
from eigen_reptile.runtime.ray_jobs import run_on_ray
from eigen_reptile.training.experiment import ExperimentJob, run_folder
from eigen_reptile.training.result import Result
from eigen_reptile.training.saved_result import check_belongs, read_result
from eigen_reptile.training.setup import find_device, set_up

log = logging.getLogger(__name__)


def execute(
    jobs: Sequence[ExperimentJob], work: Work, output: Output, at_once: int = 1, engine: Engine = "here"
) -> Outcome[Result]:
    """Run all jobs; a job that fails does not stop the others."""
    if work.workers > 1 and not is_worker():
        return _in_workers(jobs, work, output)
    if at_once > 1 or engine == "ray":
        with logging_to_stderr(output), progress_bars(output) as progress:
            if engine == "ray":
                absolute = [job._replace(folder=job.folder.absolute()) for job in jobs]
                return run_on_ray(absolute, progress.start)
            return run_in_processes(jobs, at_once, progress.start, work.timeout)
    return _in_this_process(jobs, work, output)


def _in_this_process(jobs: Sequence[ExperimentJob], work: Work, output: Output) -> Outcome[Result]:
    """Run the jobs one after the other, together with the other workers if this process is one of several."""
    outcome: Outcome[Result] = Outcome({}, {})
    group = WorkerGroup(work.timeout, find_device(work.device).type == "cuda")
    shown = output if is_lead() else Output(quiet=True)
    with logging_to_stderr(shown), progress_bars(shown) as progress:
        if is_lead() and is_restarted():
            log.warning("a worker died: all workers were restarted and continue from the last checkpoint")
        for job in jobs:
            try:
                with group.connected(job.name) as workers:
                    outcome.results[job.name] = job.run(progress.start, workers)
            except FAILURES as error:
                outcome.failed[job.name] = error
    return outcome


def _in_workers(jobs: Sequence[ExperimentJob], work: Work, output: Output) -> Outcome[Result]:
    """Start the workers, let them run the jobs, and read the results from the run folders."""
    outcome: Outcome[Result] = Outcome({}, {})
    unfinished = []
    with logging_to_stderr(output), progress_bars(output) as progress:
        for job in jobs:  # find wrong settings before any worker is started
            finished = (job.folder / "result.json").exists()
            try:
                if not finished:
                    set_up(job.experiment, progress.start, work.device, Workers(count=work.workers))
                with run_folder(job.folder, job.experiment):
                    unfinished += [] if finished else [job]
            except FAILURES as error:
                outcome.failed[job.name] = error
    if unfinished:
        outcome.failed.update(launch_workers(_worker_main, (unfinished, work, output), work.workers))
    for job in jobs:
        if job.name in outcome.failed:
            continue
        try:
            outcome.results[job.name] = _saved_result(job)
        except FAILURES as error:
            outcome.failed[job.name] = error
    return outcome


def _saved_result(job: ExperimentJob) -> Result:
    file = job.folder / "result.json"
    if not file.exists():
        raise RunError("the workers ended without a result")
    result = read_result(file)
    check_belongs(result, job.experiment, file)
    return result


def _worker_main(jobs: Sequence[ExperimentJob], work: Work, output: Output) -> dict[str, Exception]:
    """The work of each worker process; returns the errors by the names of the jobs."""
    prepare_streams()
    torch.set_num_threads(max(1, (os.cpu_count() or 1) // work.workers))
    return _in_this_process(jobs, work, output).failed
