"""The `check` command: whether files on the disk are still as they were written."""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from eigen_reptile.cli.arguments import UsageError
from eigen_reptile.errors import RunError
from eigen_reptile.runtime.text import printable


class FolderKind(NamedTuple):
    """A kind of folder that can be checked."""

    markers: tuple[str, ...]
    """Files that identify such a folder; one of them is enough."""
    check: Callable[[Path], list[str]]
    """Lists what is damaged in it, one line each. It imports what it needs, which for a run is torch."""


class CheckedFolder(NamedTuple):
    """A folder that was checked."""

    folder: Path
    kind: str
    problems: list[str]


def _check_run(folder: Path) -> list[str]:
    from eigen_reptile.training.check_run import check_run

    return check_run(folder)


def _check_study(folder: Path) -> list[str]:
    from eigen_reptile.report.theory import read_studies

    try:
        read_studies(folder)
    except RunError as error:
        return [str(error)]
    return []


def _check_cache(folder: Path) -> list[str]:
    from eigen_reptile.data.io.cache import check_cache

    return check_cache(folder)


def _check_features(folder: Path) -> list[str]:
    from eigen_reptile.practice.backbones.feature_cache import check_features

    return check_features(folder)


KINDS = {
    "run": FolderKind(("config.json", "result.json", "metrics.jsonl", "checkpoints/step-*.json"), _check_run),
    "study": FolderKind(("study.json",), _check_study),
    "cache": FolderKind((f"*-{'[0-9a-f]' * 16}/*.npy",), _check_cache),
    "cache of features": FolderKind(("features.sqlite",), _check_features),
}


def check_command(args: Sequence[str]) -> None:
    words = [arg for arg in args if not arg.startswith("--")]
    if len(words) != 1:
        raise UsageError("name one folder: check FOLDER (see eigen-reptile check --help)")
    folder = Path(words[0])
    if not folder.is_dir():
        raise UsageError(f"there is no folder {folder}")
    checked = check_below(folder)
    if not checked:
        raise RunError(f"there is nothing to check in {folder}: no {', '.join(KINDS)}")
    damaged = [one for one in checked if one.problems]
    if "--json" in args:
        found = [{"folder": str(place), "kind": kind, "problems": problems} for place, kind, problems in checked]
        print(json.dumps({"intact": not damaged, "checked": found}))
    elif "--quiet" not in args:
        for one in damaged:
            print("\n".join(printable(f"{one.folder}: {problem}") for problem in one.problems))
        if not damaged:
            print(f"intact: {_format_counts(checked)}")
    if damaged:
        raise RunError(f"damaged: {_format_counts(damaged)}, of {len(checked)} that were checked")


def check_below(folder: Path) -> list[CheckedFolder]:
    """Check the folder and all folders below it that are of a known kind."""
    return [
        CheckedFolder(place, name, kind.check(place))
        for name, kind in KINDS.items()
        for place in sorted(_find_folders(folder, kind))
    ]


def _find_folders(folder: Path, kind: FolderKind) -> set[Path]:
    return {file.parents[marker.count("/")] for marker in kind.markers for file in folder.rglob(marker)}


def _format_counts(checked: Sequence[CheckedFolder]) -> str:
    """For example "1 run, 2 caches"."""
    counts = Counter(one.kind for one in checked)
    return ", ".join(f"{count} {kind if count == 1 else _plural(kind)}" for kind, count in counts.items())


def _plural(kind: str) -> str:
    noun, of, rest = kind.partition(" of ")
    return (f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s") + of + rest
