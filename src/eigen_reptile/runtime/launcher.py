"""Starts the workers of this machine, restarts them when one has died, and passes signals on to them."""

import ctypes
import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import active_children, get_context, parent_process
from types import FrameType
from typing import Any, NamedTuple, TypeVar

from torch.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from eigen_reptile.errors import RunError
from eigen_reptile.runtime.distributed import is_lead
from eigen_reptile.runtime.interruption import (
    SIGNALS,
    Interrupted,
    handled_by,
    held_back_from_children,
    ignore_signals,
    interrupt_once,
)

R = TypeVar("R")

RESTARTS = 3
"""How often all workers are restarted, from the last checkpoint, after one of them has died."""
SECONDS_TO_FOLLOW = 30.0
"""How long the other workers may take to stop after the lead: they may be compiling, or waiting for it."""
SECONDS_TO_HEAR = 1.0
"""How long the launcher may take to receive a signal that has reached a worker too, as that of a terminal does."""


class _Interruption(NamedTuple):
    """What launcher and workers know of an interruption, in memory that they share."""

    stopping: ctypes.c_bool
    """Whether the launcher has received a signal."""
    lead: ctypes.c_int
    """The lead's process id; 0 until it has started."""
    where: "ctypes.Array[ctypes.c_char]"
    """From where the next start will continue, as the lead says."""


def launch_workers(work: Callable[..., R], args: Sequence[Any], workers: int) -> R:
    """Run `work(*args)` in this many processes at once, and return the lead's result.

    If one dies, restart them all, RESTARTS times at most. A signal interrupts the lead, and thereby all of them.
    """
    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=workers,
        run_id=f"eigen-reptile-{os.getpid()}",
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        max_restarts=RESTARTS,
        monitor_interval=0.2,
        start_method="spawn",
        signals_to_handle="SIGQUIT",  # the others are handled here
    )
    context = get_context("spawn")
    shared = _Interruption(
        context.RawValue(ctypes.c_bool, False),
        context.RawValue(ctypes.c_int, 0),
        context.RawArray(ctypes.c_char, 200),
    )
    with _torch_silenced(), _signals_passed_on(shared) as received:
        try:
            result: R = elastic_launch(config, _work)(shared, work, args)[0]
        except ChildFailedError as error:
            if not shared.stopping.value:
                raise RunError(_explain(*error.get_first_failure())) from error
    if shared.stopping.value:
        raise Interrupted(shared.where.value.decode(), received[0] if received else signal.SIGINT)
    return result


@contextmanager
def _torch_silenced() -> Iterator[None]:
    """Without the pages that torch logs about each death; we log one line."""
    loggers = [logging.getLogger(name) for name in ("torch.distributed.elastic", "torch.multiprocessing")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


@contextmanager
def _signals_passed_on(shared: _Interruption) -> Iterator[list[int]]:
    """Let the first signal interrupt the lead, and the second kill all workers; yields the signals received."""
    received: list[int] = []

    def kill(spared: int | None = None) -> None:
        for child in active_children():
            if child.pid != spared:
                child.kill()

    # If the lead waits for the others, their end lets it go on, and save its state.
    impatience = threading.Timer(SECONDS_TO_FOLLOW, lambda: kill(shared.lead.value))
    impatience.daemon = True

    def receive(number: int, frame: FrameType | None) -> None:
        received.append(number)
        shared.stopping.value = True
        if len(received) > 1:
            kill()
            return
        for child in active_children():
            child.terminate()
        impatience.start()

    try:
        with handled_by(receive), held_back_from_children():
            yield received
    finally:
        impatience.cancel()


def _work(shared: _Interruption, work: Callable[..., R], args: Sequence[Any]) -> R | None:
    """The main function of each worker process; returns None if it was interrupted."""
    if shared.stopping.value:  # restarted although the work is to end
        return None
    result = None
    try:
        if is_lead():
            shared.lead.value = os.getpid()
            interrupt_once()
        else:
            ignore_signals()  # they stop when the lead does
        result = work(*args)
        _outlast_signals()
    except Interrupted as interruption:
        _outlast_signals()
        _check_that_all_stop(shared)
        if is_lead():
            shared.where.value = interruption.where.encode()[:199]
    return result


def _outlast_signals() -> None:
    """Wait for the others, whatever arrives: to die meanwhile would block the launcher.

    But without a launcher this process would never end.
    """
    for number in SIGNALS:
        signal.signal(number, _leave_if_orphaned)
    _leave_if_orphaned()


def _check_that_all_stop(shared: _Interruption) -> None:
    """Raise RunError, so that all workers are restarted, if the signal came from torch because another one has died."""
    end = time.monotonic() + SECONDS_TO_HEAR
    while not shared.stopping.value:
        if time.monotonic() > end:
            raise RunError("a signal that the launcher has not received, or the death of another worker")
        time.sleep(0.01)


def _leave_if_orphaned(number: int = 0, frame: FrameType | None = None) -> None:
    launcher = parent_process()
    if launcher is None or not launcher.is_alive():
        os._exit(1)


def _explain(rank: int, failure: ProcessFailure) -> str:
    """What is said about a worker that died once too often."""
    message: Any = failure.message  # or a dict that contains it
    lines = str(message["message"] if isinstance(message, dict) else message).splitlines()
    cause = failure.signal_name() if failure.exitcode < 0 else lines[0]
    return (
        f"worker {rank} died although all workers were restarted {RESTARTS} times, at last from {cause}: repeat the "
        "command to continue from the last checkpoint"
    )
