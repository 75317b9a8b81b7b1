"""Starts the workers of this machine, restarts them when one has died, and passes signals on to them."""

import ctypes
import logging
import os
import signal
import threading
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


class _Interruption(NamedTuple):
    """What launcher and workers know of an interruption, in memory that they share."""

    stopping: ctypes.c_bool
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
    for name in ("torch.distributed.elastic", "torch.multiprocessing"):
        logging.getLogger(name).setLevel(logging.CRITICAL)  # they log pages about each death; we log one line
    context = get_context("spawn")
    shared = _Interruption(context.RawValue(ctypes.c_bool, False), context.RawArray(ctypes.c_char, 200))
    with _signals_passed_on(shared) as received:
        try:
            result: R = elastic_launch(config, _work)(shared, work, args)[0]
        except ChildFailedError as error:
            if not shared.stopping.value:
                raise RunError(_explain(*error.get_first_failure())) from error
    if shared.stopping.value:
        raise Interrupted(shared.where.value.decode(), received[0] if received else signal.SIGINT)
    return result


@contextmanager
def _signals_passed_on(shared: _Interruption) -> Iterator[list[int]]:
    """Let the first signal interrupt the lead, and the second kill all workers; yields the signals received."""
    received: list[int] = []

    def kill(first: int) -> None:
        for child in sorted(active_children(), key=lambda child: child.pid or 0)[first:]:
            child.kill()

    # If the lead waits for the others, their end lets it go on, and save its state.
    impatience = threading.Timer(SECONDS_TO_FOLLOW, kill, (1,))
    impatience.daemon = True

    def receive(number: int, frame: FrameType | None) -> None:
        received.append(number)
        shared.stopping.value = True
        if len(received) > 1:
            kill(0)
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
    if is_lead():
        interrupt_once()
    else:
        ignore_signals()  # they stop when the lead does
    result = None
    try:
        result = work(*args)
    except Interrupted as interruption:
        shared.stopping.value = True
        if is_lead():
            shared.where.value = interruption.where.encode()[:199]
    # Now it waits for the others. To die meanwhile would block the launcher; but without a launcher it would never end.
    for number in SIGNALS:
        signal.signal(number, _leave_if_orphaned)
    _leave_if_orphaned()
    return result


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
