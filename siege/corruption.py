"""Damaged files: the same numbers as before, or one clear message; never a traceback, never silently other numbers."""

import random
import shutil
import signal
import zipfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from eigen_reptile.report.benchmark import PROVENANCE, BenchmarkTable
from eigen_reptile.runtime.files import write_json
from siege import command
from siege.case import Attack, BrokenPromiseError, Limits, Part, Prepare
from siege.file_events import at_change, install, send_to_self
from siege.mutate import damage_file
from siege.victims import (
    ADAPT,
    EVAL,
    NOISE,
    REPORT,
    TRAIN_IMAGES,
    TRAIN_SINE,
    difference,
    digests,
    features_in,
    numbers_of,
    write_images,
)

COMPARE = ("compare", "runs/images", "runs/other", "--json")
PREDICT = ("predict", "model.safetensors", "images", "--json")
FROM_ZIP = ("eval", "runs/images", "--quiet", "--data.root", "images.zip", "--out", "runs/again")
LABELS = (
    *NOISE[:-8],
    "--noise.kind",
    "labels",
    "--noise.where",
    "bank",
    "--noise.file",
    "labels.csv",
    "--out",
    "noise.png",
)
SPEED = ("report", "runs", "--benchmarks", "speed", "--out", "report", "--quiet")

SPEED_COLUMNS = ("", "contender", "per second", "slowest", "fastest", "times plain PyTorch")
SPEED_ROWS: list[list[str | float]] = [
    ["5 tasks", "plain PyTorch", 10.0, 9.0, 12.0, 1.0],
    ["5 tasks", "x", 15.5, 14, 16, 1.5],
]


FIRST = {"cached": (*EVAL[:-1], "runs/first"), "adapted": ADAPT}
"""Commands that are run before the damage is done."""


class Target(NamedTuple):
    """Files of one kind, and a command that reads them."""

    files: str
    """Pattern of their paths."""
    args: tuple[str, ...]
    outcome: Callable[[Path, command.Printed], Any]
    """The numbers that the command computes from them."""
    before: str
    """The folder in which the command starts."""
    vouched: bool = True
    """Whether damage can be noticed. It cannot in what people write by hand: there is only the promise of a message."""
    optional: bool = False
    """Whether a file may be missing: a report on fewer runs is no damage."""


def _left(outcome: Callable[[Path], Any]) -> Callable[[Path, command.Printed], Any]:
    return lambda folder, printed: outcome(folder)


def _printed(folder: Path, printed: command.Printed) -> Any:
    return printed.out


RESUMED, AGAIN = _left(numbers_of("runs/sine")), _left(numbers_of("runs/again"))
TARGETS = {
    "config": Target("runs/sine/config.json", TRAIN_SINE, RESUMED, "interrupted"),
    "environment": Target("runs/sine/environment.json", TRAIN_SINE, RESUMED, "interrupted"),
    "metrics": Target("runs/sine/metrics.jsonl", TRAIN_SINE, RESUMED, "interrupted"),
    "checkpoint of a run": Target("runs/sine/checkpoints/*", TRAIN_SINE, RESUMED, "interrupted"),
    "checkpoint of a model": Target("runs/images/checkpoints/*", EVAL, AGAIN, "finished"),
    "result": Target("runs/*/result.json", COMPARE, _printed, "finished"),
    "result in a report": Target(
        "runs/*/result.json", REPORT, _left(digests("report/*.md")), "finished", optional=True
    ),
    "example": Target(
        "runs/images/example.safetensors", REPORT, _left(digests("report/**/*")), "finished", optional=True
    ),
    "cache": Target("cache/*/*", EVAL, AGAIN, "cached"),
    "model": Target("model.safetensors", PREDICT, _printed, "adapted"),
    "cache of features": Target("cache/features/*", ADAPT, _left(features_in("model.safetensors")), "adapted"),
    "zip": Target("images.zip", FROM_ZIP, AGAIN, "finished"),
    "image": Target("images/*/*.png", EVAL, AGAIN, "finished", vouched=False),
    "labels": Target("labels.csv", LABELS, _printed, "finished", vouched=False),
    "benchmark": Target("speed/*.json", SPEED, _left(digests("report/*.md")), "finished", vouched=False),
}


def _prepare(folder: Path) -> Mapping[str, Prepare]:
    return {name: partial(_damaging, name, target, folder) for name, target in TARGETS.items()}


def _damaging(name: str, target: Target, folder: Path) -> Attack:
    finished, interrupted = folder / "finished", folder / "interrupted"
    if target.before == "interrupted" and not interrupted.exists():
        interrupted.mkdir()
        _interrupt(interrupted)
    if target.before != "interrupted" and not finished.exists():
        write_images(finished / "images")
        _write_sources(finished)
        command.must_succeed(TRAIN_IMAGES, finished)
        command.must_succeed((*TRAIN_IMAGES[:-1], "runs/other", "--seeds", "1"), finished)
    return partial(_attack, target, folder, _expected(name, target, folder))


def _write_sources(folder: Path) -> None:
    """The images as a zip, labels for them, and a benchmark."""
    with zipfile.ZipFile(folder / "images.zip", "w") as archive:
        for file in sorted(folder.glob("images/*/*")):
            archive.write(file, file.relative_to(folder / "images"))
    rng = np.random.default_rng(0)
    names = [file.parent.name for file in sorted(folder.glob("images/*/*"))]
    rows = [f"{name},{rng.choice(names)}" for name in names]
    (folder / "labels.csv").write_text("\n".join(["class,label", *rows, ""]))
    (folder / "speed").mkdir()
    environment: dict[str, str | float | None] = dict.fromkeys(PROVENANCE, "x")
    table = BenchmarkTable("Title", "about", SPEED_COLUMNS, SPEED_ROWS, 3, environment)
    write_json(folder / "speed" / "speed.json", table._asdict())


def _interrupt(folder: Path) -> None:
    """Train until there are two checkpoints."""

    def prepare() -> None:
        install(at_change(1, _kill_at_second_checkpoint(folder), folder))

    printed = command.run(TRAIN_SINE, folder, prepare=prepare)
    if printed.code != -signal.SIGKILL:
        raise BrokenPromiseError(f"the training ended too early: {printed.err}")


def _kill_at_second_checkpoint(folder: Path) -> Callable[[], None]:
    kill = send_to_self(signal.SIGKILL)

    def act() -> None:
        if len(list(folder.glob("runs/sine/checkpoints/step-*.json"))) == 2:
            kill()

    return act


def _start(target: Target, shared: Path, folder: Path) -> None:
    """What the command needs. The cached images are those of this copy, because a cache entry belongs to its files."""
    shutil.copytree(
        shared / ("interrupted" if target.before == "interrupted" else "finished"), folder, dirs_exist_ok=True
    )
    shutil.rmtree(folder / "cache", ignore_errors=True)
    if target.before in FIRST:
        command.must_succeed(FIRST[target.before], folder)


def _expected(name: str, target: Target, shared: Path) -> Any:
    folder = shared / f"expected {name}"
    folder.mkdir()
    _start(target, shared, folder)
    return target.outcome(folder, command.must_succeed(target.args, folder))


def _attack(target: Target, shared: Path, expected: Any, rng: random.Random, folder: Path) -> str:
    _start(target, shared, folder)
    files = sorted(folder.glob(target.files))
    file = rng.choice(files)
    damage = damage_file(rng, file, [other for other in files if other != file])
    printed = command.run(target.args, folder)
    try:
        command.check_manners(printed)
        if printed.code not in (0, 1, 2):
            raise BrokenPromiseError(f"exit code {printed.code}: {printed.problem_line()}")
        found = target.outcome(folder, printed) if printed.code == 0 else None
        vouched = target.vouched and not (target.optional and damage == "deleted")
        if vouched and printed.code == 0 and found != expected:
            raise BrokenPromiseError(f"silently other numbers: {difference(expected, found)}")
    except BrokenPromiseError as broken:
        raise BrokenPromiseError(f"{file.name} {damage}: {broken}") from broken
    if printed.code:
        return "refused"
    return "same numbers" if found == expected else "read as other data"


CORRUPTION = Part(
    "bits flipped, parts cut or zeroed, files deleted or swapped, in every kind of file that a command reads",
    _prepare,
    Limits(seconds=300),
)
