"""Cases in child processes: whatever a case does to its process, the siege goes on."""

import json
import os
import resource
import select
import shutil
import signal
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, final

from siege.case import Attack, BrokenPromiseError, Limits, Part, generator_of
from siege.file_events import forbid_elsewhere, install
from siege.forks import end_group, fork, receive_signals

HEADROOM = 1 << 32
"""Bytes of address space beyond the limit, so that growth is measured rather than prevented; for the machine's sake."""


class Verdict(NamedTuple):
    """What became of a case."""

    number: int
    kind: str
    outcome: str
    problem: str
    """The promise that was broken; empty if none was."""


@final
class Attacks:
    """The attacks of a part, each of which is prepared when a case needs it."""

    def __init__(self, part: Part, folder: Path) -> None:
        folder.mkdir()
        self._prepare = part.prepare(folder)
        self._prepared: dict[str, Attack] = {}

    def kind_of(self, number: int) -> str:
        """The name of the attack that a case makes."""
        return list(self._prepare)[number % len(self._prepare)]

    def prepare(self, numbers: range) -> None:
        """Prepare the attacks of these cases."""
        for kind in {self.kind_of(number): None for number in numbers[: len(self._prepare)]}:
            if kind not in self._prepared:
                self._prepared[kind] = self._prepare[kind]()

    def of_case(self, number: int) -> Attack:
        return self._prepared[self.kind_of(number)]


def run_cases(name: str, part: Part, attacks: Attacks, seed: int, numbers: range, folder: Path) -> Iterator[Verdict]:
    """The verdicts on these cases, in order. A case that fails is the last one of its process."""
    attacks.prepare(numbers)
    while numbers:
        for verdict in _run_child(name, part, attacks, seed, numbers, folder):
            yield verdict
            numbers = range(verdict.number + 1, numbers.stop)


def _run_child(name: str, part: Part, attacks: Attacks, seed: int, numbers: range, folder: Path) -> Iterator[Verdict]:
    receiver, sender = os.pipe()
    child = fork(lambda: _attack_all(name, part, attacks, seed, numbers, folder, sender), leads_group=True)
    os.close(sender)
    number = numbers.start
    try:
        for line in _lines(receiver, part.limits.seconds):
            verdict = Verdict(**json.loads(line))
            number = verdict.number + 1
            yield verdict
            if verdict.problem:
                return
    except TimeoutError:
        yield Verdict(number, attacks.kind_of(number), "failed", f"it took more than {part.limits.seconds:g} s")
        return
    finally:
        os.close(receiver)
        code = end_group(child)
    if number < numbers.stop:
        yield Verdict(number, attacks.kind_of(number), "failed", _death(code, part.limits))


def _death(code: int, limits: Limits) -> str:
    if -code == signal.SIGPROF:
        return f"it took more than {limits.cpu_seconds:g} s of processor time"
    return f"its process was ended by {signal.Signals(-code).name}" if code < 0 else f"its process exited with {code}"


def _lines(receiver: int, seconds: float) -> Iterator[bytes]:
    """Lines from a pipe until its other end is closed; TimeoutError if one takes longer than so many seconds."""
    rest, deadline = b"", time.monotonic() + seconds
    while True:
        if not select.select([receiver], [], [], max(0.0, deadline - time.monotonic()))[0]:
            raise TimeoutError
        if not (received := os.read(receiver, 1 << 16)):
            return
        *lines, rest = (rest + received).split(b"\n")
        yield from lines
        if lines:
            deadline = time.monotonic() + seconds


def _attack_all(name: str, part: Part, attacks: Attacks, seed: int, numbers: range, folder: Path, sender: int) -> int:
    """In the child: one case after the other, until one fails."""
    receive_signals()
    limits = part.limits
    if limits.growth is not None:
        most = _address_space("VmSize") + limits.growth + HEADROOM
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # readers may warn
    install(forbid_elsewhere(folder, part.programs))
    for number in numbers:
        kind = attacks.kind_of(number)
        place = folder / f"{name}-{number}"
        place.mkdir()
        os.chdir(place)
        outcome, problem = "failed", ""
        peak, size = _address_space("VmPeak"), _address_space("VmSize")
        try:
            signal.setitimer(signal.ITIMER_PROF, limits.cpu_seconds or 0)  # its signal ends the process
            outcome = attacks.of_case(number)(generator_of(seed, name, number), place)
        except BrokenPromiseError as broken:
            problem = str(broken)
        except BaseException as error:
            problem = describe(error)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        if limits.growth is not None and not problem and _address_space("VmPeak") > max(peak, size + limits.growth):
            outcome, problem = "failed", f"it took {(_address_space('VmPeak') - size) >> 20} MiB of memory"
        os.chdir(folder)
        if not problem:
            shutil.rmtree(place)
        os.write(sender, json.dumps(Verdict(number, kind, outcome, problem)._asdict()).encode() + b"\n")
        if problem:
            return 0
    return 0


def describe(error: BaseException) -> str:
    """An exception in one line, with the place where it was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    place = next((frame for frame in reversed(frames) if "eigen_reptile" in frame.filename), frames[-1])
    where = f"{Path(place.filename).name}, line {place.lineno}, in {place.name}"
    return f"{type(error).__name__}: {' '.join(str(error)[:200].split())} ({where})"


def _address_space(name: str) -> int:
    """The size (VmSize) or the largest size so far (VmPeak) of the address space of this process, in bytes."""
    with open("/proc/self/status", encoding="ascii", errors="replace") as status:  # noqa: PTH123 (thousands of times a second)
        return next(int(line.split()[1]) << 10 for line in status if line.startswith(name))
