"""Decisions and logs of moves: whatever they say, no picture is lost, and nothing outside of the folder changes."""

import hashlib
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from eigen_reptile.errors import RunError
from eigen_reptile.practice.audit.decisions import FILE as DECISIONS, read_decisions
from eigen_reptile.practice.audit.moves import FILE as LOG, FOLDER, Moved, MoveLog
from siege.case import BrokenPromiseError
from siege.mutate import encoded_json, mutated
from siege.readers.refusal import LONGEST_MESSAGE, outcome_of

CLASSES = ("cat", "dog", "way out", "also cat")
"""The folders of classes; the third is a link to a folder elsewhere, the fourth a link to the first."""
PATHS = (
    *(f"{label}/{name}" for label in CLASSES for name in ("0.png", "1.png", "new.png", "only cat.png", "key")),
    "../elsewhere/key", "cat/../../elsewhere/key", "cat/..", "/etc/passwd", "cat", "cat/", "", ".", "cat/sub/1.png",
    "cat/sub", "key", "cat/" + "x" * 300, "cat//0.png", "cat\\..\\key", "./cat/0.png", "x" * 9000,
)  # fmt: skip

Tree = dict[str, str]
"""The contents of files by path."""


def decisions(rng: random.Random, folder: Path) -> str:
    """Damaged decisions are applied, and what they have moved is moved back."""
    root, out = _write(folder)
    paths = [*(f"{label}/{number}.png" for label in CLASSES[:2] for number in range(2)), "cat/only cat.png"]
    made = [_decision(root, path, rng) for path in paths]
    for one in rng.sample(made, rng.randrange(3)):
        one[rng.choice(("path", "suggested", "given"))] = rng.choice((*PATHS, *CLASSES))
    data = json.dumps(made).encode() if rng.random() < 0.4 else encoded_json(rng, made)
    (out / DECISIONS).write_bytes(data)
    before = _tree(folder, root)
    ended = _moved(root, out, lambda log: log.apply(read_decisions(out)))
    _check_nothing_lost(before, _tree(folder, root))
    _moved(root, out, lambda log: log.undo())
    if (after := _tree(folder, root)) != before:
        raise BrokenPromiseError(f"after undoing it is not as before: {_changes(before, after)}")
    return ended


def log_of_moves(rng: random.Random, folder: Path) -> str:
    """A log that was made up or damaged is completed, and undone."""
    root, out = _write(folder)
    moves = [_move(rng, number) for number in range(rng.randint(1, 4))]
    lines = [json.dumps(move).encode() if rng.random() < 0.8 else encoded_json(rng, move) for move in moves]
    data = b"\n".join(lines) + b"\n" * (rng.random() < 0.9)
    (out / FOLDER / LOG).write_bytes(mutated(rng, data) if rng.random() < 0.2 else data)
    before = _tree(folder, root)
    ended = _moved(root, out, lambda log: log.undo())
    _check_nothing_lost(before, _tree(folder, root))
    return ended


def _write(folder: Path) -> tuple[Path, Path]:
    """Classes of pictures with something beside them, and the folder of an audit."""
    root, out, elsewhere = folder / "images", folder / "audit", folder / "elsewhere"
    for place in (root / "cat", root / "dog", out / FOLDER, elsewhere):
        place.mkdir(parents=True)
    (root / CLASSES[2]).symlink_to(elsewhere)
    (root / CLASSES[3]).symlink_to(root / "cat")
    for path in ("cat/0.png", "cat/1.png", "dog/0.png", "dog/1.png", "cat/only cat.png", "../elsewhere/key"):
        (root / path).write_text(path)
    return root, out


def _decision(root: Path, path: str, rng: random.Random) -> dict[str, Any]:
    given = path.partition("/")[0]
    content = hashlib.sha256((root / path).read_bytes()).hexdigest()
    suggested = rng.choice([label for label in CLASSES if label != given])
    verdict = rng.choice(("accept", "accept", "reject"))
    return {"path": path, "sha256": content, "given": given, "suggested": suggested, "verdict": verdict}


def _move(rng: random.Random, number: int) -> dict[str, Any]:
    """Mostly between the pictures that there are."""
    usual = PATHS[: 5 * len(CLASSES)]
    source, target = (rng.choice(usual if rng.random() < 0.9 else PATHS) for _ in range(2))
    undoes = rng.choice((None, None, None, number - 1, 0, -1, 2**40))
    return {"source": source, "target": rng.choice((target, target, target, source)), "undoes": undoes}


def _moved(root: Path, out: Path, act: Callable[[MoveLog], Moved]) -> str:
    """Whether files were moved, or this was refused; the reasons must be short enough to be read."""
    problems: list[str] = []

    def attempt() -> None:
        with MoveLog.locked(root, out) as log:
            problems.extend(act(log).problems)

    ended = outcome_of(attempt, RunError)
    if problems and max(map(len, problems)) > LONGEST_MESSAGE:
        raise BrokenPromiseError(f"a message of {max(map(len, problems))} characters")
    return "read, not all moved" if problems else ended


def _tree(folder: Path, root: Path) -> Tree:
    """All files but those of the audit; what is reached through a link is where it really is."""
    files = [file for place in (root / "cat", root / "dog", folder / "elsewhere") for file in place.rglob("*")]
    return {str(file.relative_to(folder)): file.read_text() for file in files if file.is_file()}


def _check_nothing_lost(before: Tree, after: Tree) -> None:
    if sorted(before.values()) != sorted(after.values()):
        raise BrokenPromiseError(f"a picture was lost, or is there twice: {_changes(before, after)}")
    outside = [{path for path in tree if path.startswith("elsewhere")} for tree in (before, after)]
    if outside[0] != outside[1]:
        raise BrokenPromiseError(f"something outside of the folder has changed: {_changes(before, after)}")


def _changes(before: Tree, after: Tree) -> str:
    return f"{sorted(before.keys() - after.keys())} became {sorted(after.keys() - before.keys())}"[:400]
