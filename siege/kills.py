"""Commands that are killed at random moments and repeated: nothing may differ from an undisturbed run."""

import json
import random
import shutil
import signal
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from siege import command
from siege.case import Attack, BrokenPromiseError, Limits, Part, Prepare
from siege.file_events import at_change, install, send_to_self
from siege.victims import Victim, Victims

SIGNALS = (signal.SIGKILL, signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
MOST_KILLS = 3
"""In one case, one after the other."""


def _prepare(folder: Path) -> Mapping[str, Prepare]:
    victims = Victims(folder)
    return {
        f"{name}, {number.name}": partial(_killing, victims, name, number)
        for number in SIGNALS
        for name in Victims.NAMES
    }


def _killing(victims: Victims, name: str, number: signal.Signals) -> Attack:
    return partial(_kill, victims[name], number)


def _kill(victim: Victim, number: signal.Signals, rng: random.Random, folder: Path) -> str:
    shutil.copytree(victim.before, folder, dirs_exist_ok=True)
    kills = 0
    for _ in range(rng.randint(1, MOST_KILLS)):
        printed = _interrupted(victim, number, rng, folder)
        command.check_manners(printed, -number)
        if printed.code == 0:
            break
        if printed.code not in (-number, 128 + number):
            raise BrokenPromiseError(f"exit code {printed.code} after {number.name}: {printed.problem_line()}")
        if number != signal.SIGKILL:
            _check_loss(folder, printed)
        kills += 1
    command.must_succeed(victim.args, folder)
    victim.check(folder)
    return f"same bits after {kills} kills" if kills != 1 else "same bits after 1 kill"


def _interrupted(victim: Victim, number: signal.Signals, rng: random.Random, folder: Path) -> command.Printed:
    """Run the command and send it the signal, either some time after its start or right before it changes a file."""
    if rng.random() < 0.5:
        moment = rng.randint(1, victim.changes)
        hook = at_change(moment, send_to_self(number), folder)
        return command.run(victim.args, folder, prepare=lambda: install(hook))
    running = command.start(victim.args, folder)
    running.ends_within(rng.uniform(0, victim.seconds))
    running.send(number)
    return running.finish(120)


def _check_loss(folder: Path, printed: command.Printed) -> None:
    """A signal that asks a training to end may cost one iteration; its experiments log every iteration."""
    for metrics in folder.glob("runs/*/metrics.jsonl"):
        if (metrics.parent / "result.json").exists():
            continue
        lines = [json.loads(line) for line in metrics.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]
        done = max((line["step"] for line in lines), default=0)
        saved = max((int(file.stem[5:]) for file in metrics.parent.glob("checkpoints/step-*.json")), default=0)
        if done - saved > 1:
            raise BrokenPromiseError(f"{done - saved} iterations were lost: {printed.problem_line() or printed.code}")


KILLS = Part(
    "kill train, eval, report and the building of a cache at random moments, repeat the command, compare bit for bit",
    _prepare,
    Limits(seconds=600),
)
