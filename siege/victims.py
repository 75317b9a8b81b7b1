"""Commands that are attacked: small enough for thousands of cases, and with an outcome that can be compared exactly."""

import hashlib
import json
import mmap
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, final

import numpy as np
import safetensors.numpy
from PIL import Image

from eigen_reptile.practice.audit.decisions import FILE as DECISIONS, Decision, content_hash
from eigen_reptile.practice.model_file import read_model
from eigen_reptile.runtime.files import write_json
from siege import command
from siege.case import BrokenPromiseError
from siege.file_events import count_changes, install

SMALL = ("--compile", "off", "--precision", "float64", "--quiet")
TRAIN_SINE = (
    *("train", "eigen-reptile", "sine", *SMALL, "--meta.steps", "12", "--checkpoint-every", "5"),
    *("--model.hidden", "4", "4", "--inner.steps", "3", "--evaluation.tasks", "6", "--evaluation.monitor-tasks", "2"),
    *("--evaluation.inner-steps", "0", "2", "--evaluation.every", "1", "--out", "runs/sine"),
)
TRAIN_IMAGES = (
    *("train", "reptile", "folder", *SMALL, "--data.root", "images", "--data.size", "12", "--data.least", "2"),
    *("--task.way", "2", "--task.shots", "2", "--model.filters", "2", "--meta.steps", "6", "--meta.batch", "2"),
    *("--inner.steps", "2", "--checkpoint-every", "2", "--evaluation.every", "1", "--evaluation.tasks", "4"),
    *("--evaluation.shots", "1", "--evaluation.queries", "2", "--evaluation.inner-steps", "2"),
    *("--evaluation.monitor-tasks", "2", "--out", "runs/images"),
)
EVAL = (*("eval", "runs/images", "--quiet", "--data.root", "images", "--evaluation.tasks", "8", "--out", "runs/again"),)
REPORT = ("report", "runs", "--out", "report", "--quiet")
APPLY = ("audit", "images", "--apply", "--quiet")
UNDO = ("audit", "images", "--undo", "--quiet")
ADAPT = ("adapt", "images", "--backbone", "runs/images", "--quiet", "--out", "model.safetensors")
NOISE = (
    *("data", "noise", "folder", "--data.root", "images", "--data.size", "12", "--data.least", "2", "--json"),
    *("--task.way", "2", "--task.shots", "2"),
    *("--noise.kind", "symmetric", "--noise.rate", "0.3", "--noise.where", "bank", "--out", "noise.png"),
)

MEASURED = ("measure", "steps", "replicas", "choice", "snapshots", "test")
"""The entries of a result that depend on nothing but the experiment."""
LEARNT = ("theta", "best.", "inner_state.", "outer.", "diverged_at")
"""How the names of the tensors in a checkpoint begin that training computes."""
LEFTOVERS = (".tmp", ".part", "-journal")


class Victim(NamedTuple):
    """A command, and what it has to leave behind however often it is interrupted."""

    args: tuple[str, ...]
    before: Path
    """A folder with all that it reads."""
    expected: Any
    outcome: Callable[[Path], Any]
    """What it left in the folder where it ran."""
    seconds: float
    """How long it takes."""
    changes: int
    """How many times it changes something on the disk."""
    features: Mapping[str, str] = MappingProxyType({})
    """What it adds to the cache of features, by sample."""

    def check(self, folder: Path, cache_may_fail: bool = False) -> None:
        """BrokenPromiseError if anything differs from an undisturbed run, or was left over.

        If the disk fails, features need not be cached, but no others may be in the cache.
        """
        if (found := self.outcome(folder)) != self.expected:
            raise BrokenPromiseError(f"{' '.join(self.args[:3])}: {difference(self.expected, found)}")
        cached = cached_features(folder)
        expected = {key: value for key, value in self.features.items() if key in cached or not cache_may_fail}
        if cached != expected:
            raise BrokenPromiseError(f"{' '.join(self.args[:3])}, features: {difference(expected, cached)}")
        if left := [path.name for path in folder.rglob("*") if path.name.endswith(LEFTOVERS)]:
            raise BrokenPromiseError(f"{' '.join(self.args[:3])} left {left[0]}")


@final
class Victims:
    """The commands, each of which is run once, undisturbed, when it is first asked for."""

    NAMES = ("train", "train with a cache", "evaluate", "report", "cache", "adapt", "move pictures")

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[str, Victim] = {}

    def __getitem__(self, name: str) -> Victim:
        if name not in self._known:
            self._known[name] = self._measured(name)
        return self._known[name]

    def _measured(self, name: str) -> Victim:
        match name:
            case "train":
                return measure(TRAIN_SINE, self._place("empty"), numbers_of("runs/sine"))
            case "train with a cache":
                outcome = everything(numbers_of("runs/images"), digests("cache/*/*.npy"))
                return measure(TRAIN_IMAGES, self._place("images"), outcome)
            case "evaluate":
                return measure(EVAL, self._place("runs"), numbers_of("runs/again"))
            case "report":
                return measure(REPORT, self._place("runs"), digests("report/**/*"))
            case "adapt":
                return measure(ADAPT, self._place("runs"), model_in("model.safetensors"))
            case "move pictures":
                return measure(APPLY, self._place("decided"), digests("images/**/*"))
        return measure(NOISE, self._place("images"), everything(digests("cache/*/*.npy"), digests("noise.png")))

    def _place(self, name: str) -> Path:
        """A folder with what a command needs: nothing, images, or also runs, or decisions about the images."""
        place = self._folder / name
        if not place.exists():
            place.mkdir()
            if name != "empty":
                write_images(place / "images")
            if name == "runs":
                for args in (TRAIN_SINE, TRAIN_IMAGES):
                    command.must_succeed(args, place)
            if name == "decided":
                write_decisions(place / "images", place / "images-audit")
        return place


def measure(args: tuple[str, ...], before: Path, outcome: Callable[[Path], Any]) -> Victim:
    """The command together with its outcome, its duration and the number of changes it makes."""
    folder = before.with_name(f"{before.name}, {args[0]} {len(list(before.parent.iterdir()))}")
    shutil.copytree(before, folder)
    counter, started = mmap.mmap(-1, 8), time.monotonic()
    printed = command.run(args, folder, prepare=lambda: install(count_changes(counter, folder)))
    seconds = time.monotonic() - started
    if printed.code != 0:
        raise BrokenPromiseError(f"{' '.join(args[:3])} failed undisturbed: {printed.err[-500:]}")
    changes = int.from_bytes(counter[:8], "little")
    return Victim(args, before, outcome(folder), outcome, seconds, changes, cached_features(folder))


def write_images(folder: Path) -> None:
    """Six classes of six small images."""
    rng = np.random.default_rng(0)
    for label in range(6):
        (folder / f"class {label}").mkdir(parents=True)
        pattern = rng.integers(0, 256, size=(12, 12))
        for number in range(6):
            pixels = np.clip(pattern + rng.integers(-40, 41, size=(12, 12)), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(folder / f"class {label}" / f"{number}.png")


def write_decisions(images: Path, audit: Path) -> None:
    """Two pictures of each class are to be moved to the next one, where their names are taken."""
    audit.mkdir()
    labels = sorted(folder.name for folder in images.iterdir())
    decisions = [
        Decision(f"{label}/{number}.png", content_hash(images / label / f"{number}.png"), label, suggested, "accept")
        for label, suggested in zip(labels, [*labels[1:], labels[0]], strict=True)
        for number in range(2)
    ]
    write_json(audit / DECISIONS, [one._asdict() for one in decisions])


def model_in(path: str) -> Callable[[Path], Any]:
    """All that is in a model file but the time at which it was written."""

    def content(folder: Path) -> Any:
        description, tensors = read_model(folder / path)
        found = json.loads(description)
        del found["card"]["time"]
        return [found, {name: digest(tensor.numpy().tobytes()) for name, tensor in tensors.items()}]

    return content


def features_in(path: str) -> Callable[[Path], Any]:
    """The features in a model file and their labels, up to rounding, which depends on how many are computed at once."""

    def content(folder: Path) -> Any:
        tensors = read_model(folder / path).tensors
        return [tensors["support.features"].double().round(decimals=4).tolist(), tensors["support.labels"].tolist()]

    return content


def cached_features(folder: Path) -> dict[str, str]:
    """What is in the cache of features, by sample."""
    file = folder / "cache" / "features" / "features.sqlite"
    if not file.exists():
        return {}
    with closing(sqlite3.connect(file)) as database:
        tables = database.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
        rows = database.execute("SELECT backbone, sample, features, checksum FROM features") if tables else ()
        return {digest(repr(row[:2]).encode()): digest(repr(row[2:]).encode()) for row in rows}


def numbers_of(run: str) -> Callable[[Path], Any]:
    """The parameters that a run has learnt and the scores it has measured, bit for bit."""

    def numbers(folder: Path) -> Any:
        result = json.loads((folder / run / "result.json").read_text())
        curve = result["learning_curve"]
        found: dict[str, Any] = {name: result[name] for name in MEASURED}
        found |= {"curve": [curve["step"], curve["score"]], "training": _timeless(result["training"])}
        for file in sorted((folder / run / "checkpoints").glob("*.safetensors"))[-1:]:
            tensors = safetensors.numpy.load(file.read_bytes())
            found |= {name: digest(tensor.tobytes()) for name, tensor in tensors.items() if name.startswith(LEARNT)}
            found["checkpoint"] = file.stem
        return found

    return numbers


def digests(pattern: str) -> Callable[[Path], Any]:
    """The content of all files that match, by path."""

    def contents(folder: Path) -> Any:
        files = sorted(file for file in folder.glob(pattern) if file.is_file())
        return {_path(file.relative_to(folder)): digest(file.read_bytes()) for file in files}

    return contents


def by_folder(files: Mapping[str, str]) -> dict[str, list[str]]:
    """The contents in each folder, whatever the names of the files."""
    folders: dict[str, list[str]] = {}
    for path, content in files.items():
        folders.setdefault(path.rpartition("/")[0], []).append(content)
    return {folder: sorted(contents) for folder, contents in folders.items()}


def _path(file: Path) -> str:
    """A path without the digest in the name of a cache entry, which depends on when the images were written."""
    return "/".join((*(part.partition("-")[0] for part in file.parts[:-1]), file.name))


def everything(*outcomes: Callable[[Path], Any]) -> Callable[[Path], Any]:
    return lambda folder: [outcome(folder) for outcome in outcomes]


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def difference(expected: Any, found: Any, place: str = "") -> str:
    """Where two values differ first."""
    match expected, found:
        case dict(), dict():
            pairs: Iterable[tuple[Any, Any, Any]] = (
                (key, expected.get(key), found.get(key)) for key in sorted(expected.keys() | found.keys())
            )
        case list(), list() if len(expected) == len(found):
            pairs = zip(range(len(found)), expected, found, strict=True)
        case _:
            return f"{place or 'the outcome'} is {str(found)[:80]} in place of {str(expected)[:80]}"
    return next(difference(one, other, f"{place}/{key}") for key, one, other in pairs if one != other)


def _timeless(statistics: dict[str, float]) -> dict[str, float]:
    return {name: value for name, value in statistics.items() if "second" not in name}
