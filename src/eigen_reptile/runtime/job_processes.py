"""Jobs in parallel processes on this machine. One that dies or hangs does not stop the others."""

import os
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar, final

import torch

from eigen_reptile.errors import RunError
from eigen_reptile.runtime.interruption import held_back_from_children, interrupt_once
from eigen_reptile.runtime.jobs import Job, JobEnded, Message, Outcome, handle_message, run_job
from eigen_reptile.runtime.progress import ReportProgress, StartProgress

SECONDS_BETWEEN_LOOKS = 1.0
SECONDS_TO_EXIT = 10.0
"""For a process that has sent its last message, or has been asked to end."""

R = TypeVar("R")

Inbox = SimpleQueue[tuple[str, Message | None]]
"""Messages of all processes with the name of the job; None after the last."""


def run_in_processes(jobs: Sequence[Job[R]], at_once: int, start_progress: StartProgress, timeout: float) -> Outcome[R]:
    """Run `at_once` jobs at a time, each in its own process with an equal number of cores.

    A job that fails, or whose process dies or gives no sign of life for `timeout` seconds, does not stop the others.
    """
    threads = max(1, (os.cpu_count() or 1) // at_once)
    waiting, running = iter(jobs), dict[str, _RunningJob[R]]()
    inbox, ended = Inbox(), dict[str, R | RunError]()
    try:
        while True:
            while len(running) < at_once and (job := next(waiting, None)):
                try:
                    running[job.name] = _RunningJob.start(job, threads, inbox)
                except OSError as error:  # as when the process dies before it has read what it is to do
                    ended[job.name] = RunError(
                        f"its process could not be started ({error}): repeat the command to continue the run"
                    )
            if not running:
                return Outcome.of(jobs, ended)
            with suppress(Empty):
                name, message = inbox.get(timeout=SECONDS_BETWEEN_LOOKS)
                if name in running and (end := running[name].handle(message, start_progress)) is not None:
                    ended[name] = end
            for name, one in running.items():
                if name not in ended and one.silence.seconds_until_now() > timeout:
                    one.process.kill()
                    ended[name] = RunError(
                        f"it gave no sign of life for {timeout:g} seconds (`timeout`) and was stopped: repeat the "
                        "command to continue the run"
                    )
            running = {name: one for name, one in running.items() if name not in ended}
    finally:
        _stop([one.process for one in running.values()])


@final
@dataclass(frozen=True)
class _RunningJob(Generic[R]):
    """A job in its own process."""

    job: Job[R]
    process: BaseProcess
    silence: "Silence"
    bars: dict[str, ReportProgress]

    @staticmethod
    def start(job: Job[R], threads: int, inbox: Inbox) -> "_RunningJob[R]":
        context = get_context("spawn")
        connection, sender = context.Pipe(duplex=False)
        process = context.Process(target=_process_main, args=(job, threads, sender), name=job.name)
        with held_back_from_children():
            process.start()
        sender.close()  # now only the process has it open, so that its death closes the connection
        # In a thread, because a process that is stopped in the middle of a message blocks its reader.
        threading.Thread(target=_receive, args=(job.name, connection, inbox), daemon=True).start()
        return _RunningJob(job, process, Silence(process.pid or 0), {})

    def handle(self, message: Message | None, start_progress: StartProgress) -> "R | RunError | None":
        """Handle one message; the result or the error if the job has ended."""
        self.silence.end()
        if message is not None:
            end: R | RunError | None = handle_message(message, self.bars, start_progress)
            if end is not None:
                _join(self.process)
            return end
        _join(self.process)
        return RunError(f"its process died (exit code {self.process.exitcode}): repeat the command to continue the run")


def _receive(name: str, connection: Connection, inbox: Inbox) -> None:
    """Pass on all messages of a process."""
    message: Message | None = None
    while not isinstance(message, JobEnded):
        try:
            message = connection.recv()
        except Exception:  # the end of the connection, or half a message
            inbox.put((name, None))
            return
        inbox.put((name, message))


def _process_main(job: Job[R], threads: int, connection: Connection) -> None:
    """The main function of a job's process."""
    one_at_a_time = threading.Lock()

    def send(message: Message) -> None:
        with one_at_a_time:  # log messages may come from any thread
            connection.send(message)

    with suppress(BrokenPipeError, KeyboardInterrupt):  # nobody is waiting for the result any more
        interrupt_once()
        torch.set_num_threads(threads)
        send(run_job(job, send))


def _stop(processes: Sequence[BaseProcess]) -> None:
    for process in processes:
        process.terminate()
    for process in processes:
        _join(process)


def _join(process: BaseProcess) -> None:
    """Wait until a process that is about to end has ended; if it does not, kill it."""
    process.join(SECONDS_TO_EXIT)
    if process.is_alive():
        process.kill()
        process.join()


@final
class Silence:
    """How long a process has given no sign of life: no message, and no processor time of it or its children.

    So a process that compiles, loads data or computes is not taken for one that hangs.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._used = processor_ticks(pid)
        self._looked = time.monotonic()
        self._seconds = 0.0

    def end(self) -> None:
        """A message has arrived."""
        self._seconds = 0.0

    def seconds_until_now(self) -> float:
        since = time.monotonic() - self._looked
        if since < SECONDS_BETWEEN_LOOKS:
            return self._seconds
        used = processor_ticks(self._pid)
        # Longer than this only if the process that looks was itself stopped, perhaps together with the others.
        passed = min(since, 2 * SECONDS_BETWEEN_LOOKS)
        self._seconds = self._seconds + passed if used is not None and used == self._used else 0.0
        self._used, self._looked = used, self._looked + since
        return self._seconds


def processor_ticks(pid: int) -> int | None:
    """Processor time that a process and its descendants have used, in hundredths of a second.

    None where the system does not tell, which is everywhere but on Linux, and for a process that has ended.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        children = [child for task in Path(f"/proc/{pid}/task").iterdir() for child in _words(task / "children")]
    except OSError:
        return None
    user_to_waited_children = slice(11, 15)  # utime, stime, cutime, cstime
    return sum(map(int, fields[user_to_waited_children])) + sum(processor_ticks(int(child)) or 0 for child in children)


def _words(file: Path) -> list[bytes]:
    with suppress(OSError):  # the thread has ended
        return file.read_bytes().split()
    return []
