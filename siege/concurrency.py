"""Two processes on one run folder or one cache: one of them works, the other waits or is refused, nothing is mixed."""

import random
import shutil
import signal
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from siege import command
from siege.case import Attack, BrokenPromiseError, Limits, Part, Prepare
from siege.victims import TRAIN_SINE, Victim, Victims, measure, numbers_of

IN_USE = ("another process is using", "taken over by another process")
"""Why one of two processes may be refused."""


def _prepare(folder: Path) -> Mapping[str, Prepare]:
    victims = Victims(folder)
    attacks: dict[str, Prepare] = {f"{name}, twice": partial(_two_of, victims, name) for name in Victims.NAMES}
    return attacks | {
        "two commands, one cache": partial(_two_on_a_cache, victims),
        "two experiments, one folder": partial(_two_in_a_folder, victims),
    }


def _two_of(victims: Victims, name: str) -> Attack:
    return partial(_twice, victims[name])


def _two_on_a_cache(victims: Victims) -> Attack:
    return partial(_side_by_side, victims["train with a cache"], victims["cache"])


def _two_in_a_folder(victims: Victims) -> Attack:
    other = measure((*TRAIN_SINE, "--seeds", "1"), victims["train"].before, numbers_of("runs/sine"))
    return partial(_two_experiments, victims["train"], other)


def _twice(victim: Victim, rng: random.Random, folder: Path) -> str:
    """The same command in two processes; sometimes one of them is killed."""
    shutil.copytree(victim.before, folder, dirs_exist_ok=True)
    first = command.start(victim.args, folder)
    first.ends_within(rng.uniform(0, victim.seconds))
    second = command.start(victim.args, folder)
    if killed := rng.random() < 0.3:
        second.ends_within(rng.uniform(0, victim.seconds))
        rng.choice((first, second)).send(signal.SIGKILL)
    ended = [first.finish(120), second.finish(120)]
    for printed in ended:
        command.check_manners(printed, -signal.SIGKILL)
        check_refusal(printed, *IN_USE)
    codes = sorted(printed.code for printed in ended)
    if 0 not in codes and not killed:
        raise BrokenPromiseError(f"neither succeeded: {' and '.join(printed.problem_line() for printed in ended)}")
    if killed:
        command.must_succeed(victim.args, folder)
    victim.check(folder)
    return "same bits, one killed" if killed else "same bits, one refused" if codes[-1] else "same bits, both succeeded"


def check_refusal(printed: command.Printed, *reasons: str) -> None:
    """BrokenPromiseError if a command was refused for another reason than these."""
    if printed.code > 0 and not any(reason in printed.problem_line() for reason in reasons):
        raise BrokenPromiseError(f"refused, but not because of the other process: {printed.problem_line()}")


def _side_by_side(first: Victim, second: Victim, rng: random.Random, folder: Path) -> str:
    """Two commands that build the same cache."""
    shutil.copytree(first.before, folder, dirs_exist_ok=True)
    running = [command.start(first.args, folder)]
    running[0].ends_within(rng.uniform(0, first.seconds / 2))
    running.append(command.start(second.args, folder))
    for one in running:
        printed = one.finish(120)
        command.check_manners(printed)
        if printed.code:
            raise BrokenPromiseError(f"refused: {printed.problem_line()}")
    first.check(folder)
    second.check(folder)
    return "same bits, both succeeded"


def _two_experiments(first: Victim, second: Victim, rng: random.Random, folder: Path) -> str:
    """Two experiments that are given one folder: one of them gets it."""
    begun = command.start(first.args, folder)
    begun.ends_within(rng.uniform(0, first.seconds / 2))
    others = command.start(second.args, folder).finish(120)
    own = begun.finish(120)
    for printed in (own, others):
        command.check_manners(printed)
        check_refusal(printed, *IN_USE, "belongs to another experiment")
    if sorted((own.code, others.code)) != [0, 2]:
        raise BrokenPromiseError(f"exit codes {own.code} and {others.code}: {others.problem_line()}")
    (first if own.code == 0 else second).check(folder)
    return "same bits, one refused"


CONCURRENCY = Part("two processes on one run folder, and on one cache", _prepare, Limits(seconds=600))
