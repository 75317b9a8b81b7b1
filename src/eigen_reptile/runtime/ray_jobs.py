"""Jobs as tasks of a Ray cluster."""

from collections.abc import Sequence
from typing import Any, TypeVar

import torch

from eigen_reptile.errors import RunError
from eigen_reptile.runtime.jobs import Job, JobEnded, Outcome, handle_message, run_job
from eigen_reptile.runtime.progress import ReportProgress, StartProgress

R = TypeVar("R")


def run_on_ray(jobs: Sequence[Job[R]], start_progress: StartProgress) -> Outcome[R]:
    """Run all jobs as tasks of the Ray cluster at RAY_ADDRESS, or of a temporary one on this machine.

    A job writes its files on the machine where it runs; its result is saved on this machine too.
    """
    try:
        import ray
        from ray.util.queue import Queue
    except ImportError:
        raise RunError("Ray is not installed: pip install 'eigen-reptile[ray]'") from None
    ours = not ray.is_initialized()
    if ours:
        ray.init(log_to_driver=False)
    try:
        return _run_on_ray(ray, Queue(), jobs, start_progress)
    finally:
        if ours:
            ray.shutdown()


def _run_on_ray(ray: Any, queue: Any, jobs: Sequence[Job[R]], start_progress: StartProgress) -> Outcome[R]:
    work = ray.remote(num_cpus=1, max_retries=1)(_ray_task)
    tasks = {work.remote(job, queue): job for job in jobs}
    bars: dict[str, ReportProgress] = {}
    ended: dict[str, R | RunError] = {}
    while tasks:
        done, _ = ray.wait(list(tasks), num_returns=1, timeout=0.2)
        while not queue.empty():
            handle_message(queue.get(), bars, start_progress)
        for task in done:
            job = tasks.pop(task)
            try:
                end: JobEnded = ray.get(task)
            except ray.exceptions.RayError as error:
                end = JobEnded(None, f"its Ray task died: {type(error).__name__}")
            if end.result is not None:
                job.save(end.result)
            ended[job.name] = RunError(end.problem) if end.result is None else end.result
    return Outcome.of(jobs, ended)


def _ray_task(job: Job[R], queue: Any) -> JobEnded:
    torch.set_num_threads(1)
    return run_job(job, queue.put)
