"""Jobs in parallel processes, some of which die or hang."""

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from eigen_reptile.runtime import job_processes
from eigen_reptile.runtime.interruption import held_back_from_children
from eigen_reptile.runtime.job_processes import SECONDS_BETWEEN_LOOKS, Silence, processor_ticks, run_in_processes
from eigen_reptile.runtime.progress import StartProgress, no_progress

TIMEOUT = 3.0
"""Seconds; long enough for a process to get some processor time on a busy machine."""


class Call(NamedTuple):
    """A job that calls a function; its result is its name."""

    name: str
    function: Callable[[StartProgress], object]

    def run(self, start_progress: StartProgress) -> str:
        self.function(start_progress)
        return self.name

    def save(self, result: str) -> None:
        raise AssertionError("it runs on this machine")


def succeed(start_progress: StartProgress) -> None:
    logging.getLogger("eigen_reptile.test").warning("this went %s", "well")


def send_half_a_message(number: int, start_progress: StartProgress) -> None:
    """Send this signal to ourselves when half of a message is written."""

    def write_half(self: Connection, data: Any) -> None:
        os.write(self.fileno(), bytes(data)[: len(data) // 2])
        os.kill(os.getpid(), number)

    Connection._send = write_half  # type: ignore[attr-defined]
    start_progress("half", 1)


def die_in_a_message(start_progress: StartProgress) -> None:
    send_half_a_message(signal.SIGKILL, start_progress)


def stop_in_a_message(start_progress: StartProgress) -> None:
    send_half_a_message(signal.SIGSTOP, start_progress)


def stop(start_progress: StartProgress) -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def wait_for_ever(start_progress: StartProgress) -> None:
    threading.Event().wait()


def wait_for_a_busy_child(start_progress: StartProgress) -> None:
    """Longer than the timeout, as for a compiler."""
    busy = f"import time\nend = time.monotonic() + {2 * TIMEOUT}\nwhile time.monotonic() < end: pass"
    subprocess.run([sys.executable, "-c", busy], check=True)


def test_a_process_that_dies_in_the_middle_of_a_message_stops_only_itself(caplog: pytest.LogCaptureFixture) -> None:
    jobs = [Call("dies", die_in_a_message), Call("first", succeed), Call("second", succeed)]
    outcome = run_in_processes(jobs, 2, no_progress, 240.0)
    assert outcome.results == {"first": "first", "second": "second"}
    assert "its process died (exit code -9)" in str(outcome.failed["dies"])
    assert [record.getMessage() for record in caplog.records] == ["first: this went well", "second: this went well"]


def test_a_signal_while_a_process_starts_ends_it_without_a_traceback(capfd: pytest.CaptureFixture[str]) -> None:
    context = get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=job_processes._process_main, args=(Call("waits", wait_for_ever), 1, sender))
    with held_back_from_children():
        process.start()
    process.terminate()
    process.join(240)
    assert (process.exitcode, receiver.poll(), capfd.readouterr().err) == (0, False, "")


def test_a_process_that_cannot_be_started_stops_only_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    start = BaseProcess.start

    def start_or_fail(self: BaseProcess) -> None:
        if self.name == "fails":
            raise BrokenPipeError(32, "Broken pipe")
        start(self)

    monkeypatch.setattr(BaseProcess, "start", start_or_fail)
    outcome = run_in_processes([Call("fails", succeed), Call("first", succeed)], 1, no_progress, 240.0)
    assert outcome.results == {"first": "first"}
    assert str(outcome.failed["fails"]).startswith("its process could not be started ([Errno 32] Broken pipe): ")


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc")
def test_processes_that_hang_are_ended_and_busy_ones_are_not() -> None:
    hanging = {"stopped": stop, "in a message": stop_in_a_message, "waiting": wait_for_ever}
    jobs = [*(Call(name, function) for name, function in hanging.items()), Call("busy", wait_for_a_busy_child)]
    outcome = run_in_processes(jobs, len(jobs), no_progress, TIMEOUT)
    assert outcome.results == {"busy": "busy"}
    assert list(outcome.failed) == list(hanging)
    for problem in outcome.failed.values():
        assert "it gave no sign of life for 3 seconds" in str(problem)


def test_silence_ends_with_messages_and_processor_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now, used = 100.0, 7
    monkeypatch.setattr(job_processes, "processor_ticks", lambda pid: used)
    monkeypatch.setattr(time, "monotonic", lambda: now)
    silence = Silence(1)

    def after(seconds: float) -> float:
        nonlocal now
        now += seconds
        return silence.seconds_until_now()

    look = SECONDS_BETWEEN_LOOKS
    assert [after(look) for _ in range(3)] == [look, 2 * look, 3 * look]
    assert after(1e6) <= 5 * look, "this process was stopped: that says nothing about the other"
    silence.end()
    assert after(look) == look
    used += 1
    assert after(look) == 0.0
    assert after(look) == look


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc")
def test_processor_time_includes_children() -> None:
    before = processor_ticks(os.getpid()) or 0
    child = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        while (ticks := processor_ticks(child.pid) or 0) < 20:
            time.sleep(0.05)
        assert (processor_ticks(os.getpid()) or 0) >= before + ticks
    finally:
        child.kill()
        child.wait()
    assert processor_ticks(child.pid) is None
