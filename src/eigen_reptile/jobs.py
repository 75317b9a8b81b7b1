"""Independent experiments: one after the other, side by side in processes of their own, or on a Ray cluster."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, NamedTuple

import torch

from eigen_reptile.config import Experiment
from eigen_reptile.data import DataError
from eigen_reptile.distributed import ALONE, Workers
from eigen_reptile.experiment import run_experiment, run_folder
from eigen_reptile.files import RunError
from eigen_reptile.progress import Announce, Report
from eigen_reptile.stage import Device

SECONDS_BETWEEN_MESSAGES = 0.2


class Job(NamedTuple):
    """One experiment to be carried out in a folder."""

    name: str
    experiment: Experiment
    folder: Path
    checkpoint_every: int = 1000
    device: Device = "auto"

    def run(self, announce: Announce, workers: Workers = ALONE) -> dict[str, Any]:
        return run_experiment(self.experiment, self.folder, announce, self.checkpoint_every, self.device, workers)


class Outcome(NamedTuple):
    results: dict[str, dict[str, Any]]
    failed: dict[str, Exception]

    @staticmethod
    def of(jobs: Sequence[Job], found: Mapping[str, dict[str, Any] | RunError]) -> "Outcome":
        """In the order of the jobs, in whatever order they have ended."""
        outcome = Outcome({}, {})
        for job in jobs:
            ended = found[job.name]
            if isinstance(ended, RunError):
                outcome.failed[job.name] = ended
            else:
                outcome.results[job.name] = ended
        return outcome


class Started(NamedTuple):
    """A bar of progress begins."""

    bar: str
    total: int


class Advanced(NamedTuple):
    bar: str
    step: int
    metrics: dict[str, float]


class Ended(NamedTuple):
    """The result of a job, or why there is none."""

    result: dict[str, Any] | None
    problem: str


Message = Started | Advanced | Ended


def side_by_side(jobs: Sequence[Job], at_once: int, announce: Announce) -> Outcome:
    """So many jobs at a time, each in a process of its own with its share of the cores.

    One that fails, or whose process dies, does not stop the others.
    """
    threads = max(1, (os.cpu_count() or 1) // at_once)
    waiting = iter(jobs)
    running: dict[Connection, _Running] = {}
    found: dict[str, dict[str, Any] | RunError] = {}
    try:
        while True:
            while len(running) < at_once and (job := next(waiting, None)):
                started = _Running.start(job, threads)
                running[started.mail] = started
            if not running:
                return Outcome.of(jobs, found)
            for mail in wait(list(running)):
                one = running[mail]  # type: ignore[index]
                ended = one.hear(announce)
                if ended is not None:
                    found[one.job.name] = ended
                    one.process.join()
                    del running[one.mail]
    finally:
        for one in running.values():
            one.process.terminate()


class _Running(NamedTuple):
    job: Job
    process: BaseProcess
    mail: Connection
    bars: dict[str, Report]

    @staticmethod
    def start(job: Job, threads: int) -> "_Running":
        context = get_context("spawn")
        mail, its_end = context.Pipe(duplex=False)
        process = context.Process(target=_work, args=(job, threads, its_end), name=job.name)
        process.start()
        its_end.close()  # so that only the process holds it, and its death can be heard
        return _Running(job, process, mail, {})

    def hear(self, announce: Announce) -> dict[str, Any] | RunError | None:
        """One message: how far the job is, or how it ended."""
        try:
            message: Message = self.mail.recv()
        except EOFError:
            self.process.join()
            return RunError(f"its process died (exit code {self.process.exitcode}): repeat the command to continue")
        return heard(message, self.bars, announce)


def heard(message: Message, bars: dict[str, Report], announce: Announce) -> dict[str, Any] | RunError | None:
    """Show progress; or tell how a job has ended."""
    if isinstance(message, Started):
        bars[message.bar] = announce(message.bar, message.total)
    elif isinstance(message, Advanced):
        bars[message.bar](message.step, message.metrics)
    else:
        return RunError(message.problem) if message.result is None else message.result
    return None


def messages_of(job: Job, send: Callable[[Message], None]) -> Announce:
    """Progress as messages, each bar named after its job."""

    def announce(name: str, total: int) -> Report:
        bar = name if name == job.folder.name else f"{job.name}: {name}"
        send(Started(bar, total))
        told = 0.0

        def report(step: int, metrics: Mapping[str, float]) -> None:
            nonlocal told
            if metrics or step == total or time.monotonic() - told > SECONDS_BETWEEN_MESSAGES:
                send(Advanced(bar, step, dict(metrics)))
                told = time.monotonic()

        return report

    return announce


FAILURES = (RunError, DataError, OSError)
"""What ends a job and no other: anything else is a mistake of the program."""


def ended(job: Job, announce: Announce) -> Ended:
    """Do a job, and tell how it ended."""
    try:
        return Ended(job.run(announce), "")
    except FAILURES as error:
        return Ended(None, str(error))


def _work(job: Job, threads: int, mail: Connection) -> None:
    """What a job's process does."""
    torch.set_num_threads(threads)
    mail.send(ended(job, messages_of(job, mail.send)))


def on_ray(jobs: Sequence[Job], announce: Announce) -> Outcome:
    """All jobs as tasks of the Ray cluster that RAY_ADDRESS names, or of one on this machine.

    A job's folder lies where it is run; what came out is put into the same folder here, if it is not there already.
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
        return _on_ray(ray, Queue(), jobs, announce)
    finally:
        if ours:
            ray.shutdown()


def _on_ray(ray: Any, queue: Any, jobs: Sequence[Job], announce: Announce) -> Outcome:
    work = ray.remote(num_cpus=1, max_retries=1)(_ray_work)
    tasks = {work.remote(job._replace(folder=job.folder.absolute()), queue): job for job in jobs}
    bars: dict[str, Report] = {}
    found: dict[str, dict[str, Any] | RunError] = {}
    while tasks:
        done, _ = ray.wait(list(tasks), num_returns=1, timeout=0.2)
        while not queue.empty():
            heard(queue.get(), bars, announce)
        for task in done:
            job = tasks.pop(task)
            try:
                last: Ended = ray.get(task)
            except ray.exceptions.RayError as error:
                last = Ended(None, f"its Ray task died: {type(error).__name__}")
            if last.result is not None:
                _keep(job, last.result)
            found[job.name] = RunError(last.problem) if last.result is None else last.result
    return Outcome.of(jobs, found)


def _ray_work(job: Job, queue: Any) -> Ended:
    torch.set_num_threads(1)
    return ended(job, messages_of(job, queue.put))


def _keep(job: Job, result: Mapping[str, Any]) -> None:
    with run_folder(job.folder, job.experiment) as run:
        if run.result() is None:
            run.save_result(result)
