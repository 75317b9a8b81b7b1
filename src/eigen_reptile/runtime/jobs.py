"""Independent jobs: in parallel processes on this machine, or on a Ray cluster."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, final, runtime_checkable

import torch

from eigen_reptile.errors import ConfigError, DataError, RunError
from eigen_reptile.runtime.progress import ReportProgress, StartProgress

SECONDS_BETWEEN_MESSAGES = 0.2

FAILURES = (ConfigError, DataError, RunError, OSError)
"""Errors that make one job fail and do not affect the others; anything else is a bug."""

R = TypeVar("R")


@runtime_checkable  # because the tests check types at run time
class Job(Protocol[R]):
    """A named piece of work that can be sent to another process."""

    @property
    def name(self) -> str: ...

    def run(self, start_progress: StartProgress) -> R: ...

    def save(self, result: R) -> None:
        """Store a result that was computed on another machine."""


@final
@dataclass(frozen=True)
class Outcome(Generic[R]):
    """The results and errors of jobs, by the names of the jobs."""

    results: dict[str, R]
    failed: dict[str, Exception]

    @staticmethod
    def of(jobs: Sequence[Job[R]], ended: Mapping[str, "R | RunError"]) -> "Outcome[R]":
        """Sort results and errors into the order of the jobs."""
        outcome: Outcome[R] = Outcome({}, {})
        for job in jobs:
            end = ended[job.name]
            if isinstance(end, RunError):
                outcome.failed[job.name] = end
            else:
                outcome.results[job.name] = end
        return outcome


class ProgressStarted(NamedTuple):
    """Message: a progress bar starts."""

    bar: str
    total: int


class ProgressAdvanced(NamedTuple):
    """Message: a progress bar advances."""

    bar: str
    step: int
    metrics: dict[str, float]


class JobEnded(NamedTuple):
    """Message: a job has ended, with a result or (then `result` is None) with a problem."""

    result: Any
    problem: str


Message = ProgressStarted | ProgressAdvanced | JobEnded


def run_in_processes(jobs: Sequence[Job[R]], at_once: int, start_progress: StartProgress) -> Outcome[R]:
    """Run `at_once` jobs at a time, each in its own process with an equal number of cores.

    A job that fails, or whose process dies, does not stop the others.
    """
    threads = max(1, (os.cpu_count() or 1) // at_once)
    waiting = iter(jobs)
    running: dict[Connection, _RunningJob[R]] = {}
    ended: dict[str, R | RunError] = {}
    try:
        while True:
            while len(running) < at_once and (job := next(waiting, None)):
                started = _RunningJob.start(job, threads)
                running[started.connection] = started
            if not running:
                return Outcome.of(jobs, ended)
            for connection in wait(list(running)):
                one = running[connection]  # type: ignore[index]
                end = one.receive(start_progress)
                if end is not None:
                    ended[one.job.name] = end
                    one.process.join()
                    del running[one.connection]
    finally:
        for one in running.values():
            one.process.terminate()


@final
@dataclass(frozen=True)
class _RunningJob(Generic[R]):
    """A job in its own process."""

    job: Job[R]
    process: BaseProcess
    connection: Connection
    bars: dict[str, ReportProgress]

    @staticmethod
    def start(job: Job[R], threads: int) -> "_RunningJob[R]":
        context = get_context("spawn")
        connection, sender = context.Pipe(duplex=False)
        process = context.Process(target=_process_main, args=(job, threads, sender), name=job.name)
        process.start()
        sender.close()  # now only the process has it open, so that its death closes the connection
        return _RunningJob(job, process, connection, {})

    def receive(self, start_progress: StartProgress) -> "R | RunError | None":
        """Handle one message; the result or the error if the job has ended."""
        try:
            message: Message = self.connection.recv()
        except EOFError:
            self.process.join()
            return RunError(
                f"its process died (exit code {self.process.exitcode}): repeat the command to continue the run"
            )
        end: R | RunError | None = handle_message(message, self.bars, start_progress)
        return end


def handle_message(message: Message, bars: dict[str, ReportProgress], start_progress: StartProgress) -> Any:
    """Show the progress in a message; return the result or the error if the job has ended."""
    if isinstance(message, ProgressStarted):
        bars[message.bar] = start_progress(message.bar, message.total)
    elif isinstance(message, ProgressAdvanced):
        bars[message.bar](message.step, message.metrics)
    else:
        return RunError(message.problem) if message.result is None else message.result
    return None


def progress_messages(job: Job[R], send: Callable[[Message], None]) -> StartProgress:
    """Send progress as messages; the name of every bar starts with that of the job."""

    def start_progress(name: str, total: int) -> ReportProgress:
        bar = name if name == job.name else f"{job.name}: {name}"
        send(ProgressStarted(bar, total))
        sent = 0.0

        def report(step: int, metrics: Mapping[str, float]) -> None:
            nonlocal sent
            if metrics or step == total or time.monotonic() - sent > SECONDS_BETWEEN_MESSAGES:
                send(ProgressAdvanced(bar, step, dict(metrics)))
                sent = time.monotonic()

        return report

    return start_progress


def run_job(job: Job[R], start_progress: StartProgress) -> JobEnded:
    """Run a job and return how it ended."""
    try:
        return JobEnded(job.run(start_progress), "")
    except FAILURES as error:
        return JobEnded(None, str(error))


def _process_main(job: Job[R], threads: int, connection: Connection) -> None:
    """The main function of a job's process."""
    torch.set_num_threads(threads)
    connection.send(run_job(job, progress_messages(job, connection.send)))


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
    return run_job(job, progress_messages(job, queue.put))
