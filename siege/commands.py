"""Random command lines: an exit code, one line if something is wrong, and no file outside of the folder."""

import os
import random
import shutil
import signal
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from eigen_reptile.cli.settings import flags
from eigen_reptile.data import DATASETS
from eigen_reptile.methods import METHODS
from siege import command
from siege.case import Attack, BrokenPromiseError, Limits, Part, Prepare
from siege.file_events import forbid_elsewhere, install
from siege.mutate import insert_bytes
from siege.victims import EVAL, NOISE, REPORT, TRAIN_IMAGES, TRAIN_SINE, write_images

PATIENCE = 10
"""Seconds after which a command that is still computing is interrupted, as a user would do."""
VALUES = (
    "0", "1", "2", "3", "-1", "0.5", "1e-3", "1e400", "nan", "inf", "2147483648", "9223372036854775808", "1" * 5000,
    "", " ", "None", "True", "auto", "all", "x", "\u20ac", "\u0661", "a b", "[b]", "[/b]", "$x$", "%s", "{}", "\n",
    "\x1b[31m", "\udcff", "images", "runs/images", "runs/none", "../up", "/nowhere/at/all", "images/class 0/0.png",
    "--", "-", "--help",
)  # fmt: skip
LARGE = ("1000000", "100000000", "2147483647")
SIZES = ("--data.size", "--model.filters", "--task.way", "--data.classes", "--data.per-class", "--labels")
SLOW = ("--compile", "--workers", "--engine", "--jobs", "--device")
"""Flags that would start a compiler, a cluster or other processes."""
OFFLINE = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9")
"""Nothing is downloaded: nobody listens there."""

Line = Callable[[random.Random], list[str]]
"""Draws a command line."""


def _prepare(folder: Path) -> Mapping[str, Prepare]:
    compare = ("compare", "runs/images", "runs/images")
    lines = {
        "train": _train,
        "train, sine": lambda rng: [*TRAIN_SINE],
        "train, images": lambda rng: [*TRAIN_IMAGES],
        "eval": lambda rng: [*EVAL],
        "report": lambda rng: [*REPORT],
        "compare": lambda rng: [*compare],
        "data": lambda rng: [*NOISE],
        "other": _other,
    }
    return {name: partial(_with_start, line, folder / "start") for name, line in lines.items()}


def _with_start(line: Line, start: Path) -> Attack:
    """The attack, and a folder with images and a run to start in."""
    if not start.exists():
        write_images(start / "images")
        command.must_succeed(TRAIN_IMAGES, start)
    return partial(_attack, line, start)


def _attack(line: Line, start: Path, rng: random.Random, folder: Path) -> str:
    place = folder / "home"
    shutil.copytree(start, place)
    args = _mutated(rng, line(rng))
    try:
        return _run(args, place)
    except BrokenPromiseError as broken:
        raise BrokenPromiseError(f"{broken} [eigen-reptile {' '.join(map(ascii, args))[:600]}]") from broken


def _run(args: Sequence[str], folder: Path) -> str:
    def prepare() -> None:
        os.environ.update(OFFLINE)
        install(forbid_elsewhere(folder, ("git",)))

    running = command.start(args, folder, prepare)
    stopped = not running.ends_within(PATIENCE)
    running.send(signal.SIGINT)
    printed = running.finish(60)
    command.check_manners(printed)
    allowed = (0, 130) if stopped else (0, 1, 2)
    if printed.code not in allowed:
        raise BrokenPromiseError(f"exit code {printed.code}: {printed.problem_line()}")
    return {0: "done", 130: "interrupted"}.get(printed.code, "refused")


def _train(rng: random.Random) -> list[str]:
    """Any method on any data set; with few iterations, should it come to that."""
    names = [rng.choice(list(METHODS)), rng.choice(list(DATASETS))]
    return [
        "train",
        *names[: rng.choice((2, 2, 2, 1, 0))],
        "--out",
        "x",
        "--meta.steps",
        "1",
        "--evaluation.tasks",
        "1",
    ]


def _other(rng: random.Random) -> list[str]:
    commands = (
        "list",
        "run",
        "quickstart",
        "train",
        "eval",
        "report",
        "compare",
        "data",
        "check",
        "--version",
        "",
        "nothing",
    )
    return [rng.choice(commands), *rng.sample(VALUES, rng.randrange(3))]


def _mutated(rng: random.Random, args: list[str]) -> list[str]:
    """The words with flags and values added, replaced, removed, repeated, swapped or misspelt."""
    for _ in range(rng.randrange(4)):
        place = rng.randint(1, len(args))
        match rng.randrange(6):
            case 0 | 1:
                args[place:place] = _flag(rng, args[0])
            case 2 if place < len(args):
                args[place] = rng.choice(VALUES)
            case 3 if place < len(args):
                del args[place]
            case 4 if place < len(args):
                args[place] = os.fsdecode(insert_bytes(rng, os.fsencode(args[place])).replace(b"\0", b""))
            case 5:
                args[place:place] = args[max(1, place - 2) : place]
    return args


def _flag(rng: random.Random, name: str) -> list[str]:
    known = (
        sorted(flags(name) - set(SLOW)) if name in ("train", "eval", "report", "compare", "data", "list") else ["--out"]
    )
    flag = rng.choice(known)
    values = (*VALUES, *LARGE) if flag in SIZES else VALUES
    return rng.choice(([flag, rng.choice(values)], [flag], [f"{flag}={rng.choice(values)}"], [flag[:-1], "1"]))


COMMANDS = Part(
    "random command lines: a known exit code, one line about what is wrong, nothing outside of the folder",
    _prepare,
    Limits(seconds=150),
)
