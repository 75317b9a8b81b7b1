"""Workers that are killed or stopped: the training ends with a message or goes on, and no bit differs."""

import os
import random
import signal
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache, partial
from pathlib import Path

from siege import command
from siege.case import Attack, BrokenPromiseError, Limits, Part, Prepare
from siege.victims import TRAIN_SINE, Victim, numbers_of

TIMEOUT = "5"
"""Seconds after which a worker that does not respond is considered dead."""
TWO_TASKS = ("--meta.batch", "2")
IN_TWO = (*TRAIN_SINE, *TWO_TASKS, "--meta.steps", "40", "--checkpoint-every", "10", "--timeout", TIMEOUT)
LAUNCHED = (*IN_TWO, "--workers", "2")


def _prepare(folder: Path) -> Mapping[str, Prepare]:
    undisturbed = cache(partial(_undisturbed, folder))
    kill, stop, interrupt, end = signal.SIGKILL, signal.SIGSTOP, signal.SIGINT, signal.SIGTERM
    return {
        **{f"two machines, {one.name}": partial(_with, undisturbed, _hurt_one, one) for one in (kill, stop, end)},
        **{f"--workers 2, {one.name} to one": partial(_with, undisturbed, _hurt_launched, one) for one in (kill, stop)},
        **{f"--workers 2, {one.name}": partial(_with, undisturbed, _end_launched, one) for one in (interrupt, end)},
    }


Hurt = Callable[[Victim, signal.Signals, random.Random, Path], str]


def _with(undisturbed: Callable[[], Victim], attack: Hurt, number: signal.Signals) -> Attack:
    return partial(attack, undisturbed(), number)


def _undisturbed(folder: Path) -> Victim:
    """What two workers compute: their sums are rounded in another order than those of one process."""
    place, outcome, started = folder / "undisturbed", numbers_of("runs/sine"), time.monotonic()
    place.mkdir()
    for running in _start_two(place):
        if (printed := running.finish(120)).code:
            raise BrokenPromiseError(f"two workers failed undisturbed: {printed.err[-500:]}")
    return Victim(IN_TWO, folder, outcome(place), outcome, time.monotonic() - started, changes=0)


def _start_two(folder: Path) -> list[command.Running]:
    """Two workers as torchrun starts them, one on each machine."""
    port = _free_port()
    return [command.start(IN_TWO, folder, _joins(rank, port)) for rank in range(2)]


def _joins(rank: int, port: int) -> Callable[[], None]:
    where = {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "RANK": str(rank),
        "LOCAL_RANK": "0",
        "WORLD_SIZE": "2",
    }
    return lambda: os.environ.update(where)


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def _hurt_one(victim: Victim, number: signal.Signals, rng: random.Random, folder: Path) -> str:
    """One of two workers gets a signal; the other has to notice. Then both are started again."""
    running = _start_two(folder)
    hurt, other = rng.sample(running, 2)
    hurt.ends_within(rng.uniform(0, victim.seconds))
    hurt.send(number)
    ended = other.finish(60)  # what it prints is for torchrun, which reports on its workers itself
    hurt.send(signal.SIGKILL)
    hurt.finish(60)
    for again in _start_two(folder):
        if (printed := again.finish(120)).code:
            raise BrokenPromiseError(f"it cannot be repeated: {printed.problem_line()}")
    victim.check(folder)
    return "same bits when repeated" if ended.code else "same bits"


def _hurt_launched(victim: Victim, number: signal.Signals, rng: random.Random, folder: Path) -> str:
    """One of the workers that the command has started gets a signal: all are restarted."""
    running = command.start(LAUNCHED, folder)
    running.ends_within(rng.uniform(0, 12))
    workers = _workers_of(running.pid)
    if workers and not running.ends_within(0):
        with suppress(ProcessLookupError):
            os.kill(rng.choice(workers), number)
    printed = running.finish(240)
    command.check_manners(printed)
    if printed.code:
        command.must_succeed(LAUNCHED, folder)
    victim.check(folder)
    _check_none_left(workers)
    return "same bits when repeated" if printed.code else "same bits"


def _end_launched(victim: Victim, number: signal.Signals, rng: random.Random, folder: Path) -> str:
    """The command gets a signal: its workers end with it, and the same command goes on."""
    running = command.start(LAUNCHED, folder)
    running.ends_within(rng.uniform(0, 12))
    workers = _workers_of(running.pid)
    running.send(number)
    printed = running.finish(60)
    command.check_manners(printed, -number)
    _check_none_left(workers)
    command.must_succeed(LAUNCHED, folder)
    victim.check(folder)
    return "same bits when repeated" if printed.code else "same bits"


def _workers_of(pid: int) -> list[int]:
    """The workers below a process, without the tracker of shared memory that Python starts beside them."""
    found = []
    for one in descendants(pid):
        with suppress(OSError):
            if b"spawn_main" in Path(f"/proc/{one}/cmdline").read_bytes():
                found.append(one)
    return found


def descendants(pid: int) -> list[int]:
    """All processes that a process and those it has started have started."""
    children = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == pid:
                children.append(int(entry.name))
    return children + [one for child in children for one in descendants(child)]


def _check_none_left(workers: list[int]) -> None:
    left = [worker for worker in workers if Path(f"/proc/{worker}/exe").exists()]
    if left:
        raise BrokenPromiseError(f"{len(left)} of {len(workers)} processes are still running")


WORKERS = Part(
    "kill and stop workers of a training that is shared by two processes",
    _prepare,
    Limits(seconds=900),
    programs=("*",),  # torch starts workers, and passes pickles between them
)
