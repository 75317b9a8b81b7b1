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
from siege.victims import UNDO, Victim, Victims

SIGNALS = (signal.SIGKILL, signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
MOST_KILLS = 3
"""In one case, one after the other."""


def _prepare(folder: Path) -> Mapping[str, Prepare]:
    victims = Victims(folder)
    attacks: dict[str, Prepare] = {}
    for number in SIGNALS:
        attacks |= {f"{name}, {number.name}": partial(_killing, victims, name, number) for name in Victims.NAMES}
        attacks[f"move pictures and back, {number.name}"] = partial(_killing_undo, victims, number)
    return attacks


def _killing(victims: Victims, name: str, number: signal.Signals) -> Attack:
    return partial(_kill, victims[name], number)


def _killing_undo(victims: Victims, number: signal.Signals) -> Attack:
    return partial(_kill_and_undo, victims["move pictures"], number)


def _kill(victim: Victim, number: signal.Signals, rng: random.Random, folder: Path) -> str:
    shutil.copytree(victim.before, folder, dirs_exist_ok=True)
    kills = _kill_some_times(victim, number, rng, folder)
    command.must_succeed(victim.args, folder)
    victim.check(folder)
    return f"same bits after {_times(kills)}"


def _kill_and_undo(victim: Victim, number: signal.Signals, rng: random.Random, folder: Path) -> str:
    """Wherever moving and moving back were killed, in the end every picture is where it was."""
    shutil.copytree(victim.before, folder, dirs_exist_ok=True)
    back = victim._replace(args=UNDO, expected=victim.outcome(folder))
    kills = sum(_kill_some_times(one, number, rng, folder) for one in (victim, back))
    command.must_succeed(UNDO, folder)
    back.check(folder)
    return f"same bits after {_times(kills)}"


def _times(kills: int) -> str:
    return "1 kill" if kills == 1 else f"{kills} kills"


def _kill_some_times(victim: Victim, number: signal.Signals, rng: random.Random, folder: Path) -> int:
    """Kill the command, repeat it and kill it again; how many times it did not end before."""
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
    return kills


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
    "kill train, eval, report, adapt, audit and the building of a cache at random moments, repeat, compare bit for bit",
    _prepare,
    Limits(seconds=600),
)
