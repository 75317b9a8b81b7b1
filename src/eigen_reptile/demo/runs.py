"""Run folders under one root: what they are, and their metrics while a training writes them."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

from eigen_reptile.errors import RunError
from eigen_reptile.runtime.files import read_json
from eigen_reptile.runtime.strict_json import parse_json

MOST_RUNS = 300
DEPTH = 3
"""Folders below the root in which runs are looked for."""
MOST_BYTES = 1 << 22
"""Of new metrics that are read at a time."""
SECONDS = 1.0
"""Between two looks at a file."""
KINDS = ("train", "validation")


def find_runs(root: Path) -> dict[str, Path]:
    """The run folders below the root, by their place in it. Links to elsewhere are not followed."""
    found: dict[str, Path] = {}
    for place, folders, names in os.walk(root):
        folder = Path(place)
        depth = len(folder.relative_to(root).parts)
        folders[:] = sorted(folders) if depth < DEPTH else []
        if {"config.json", "metrics.jsonl"} <= set(names):
            found[folder.relative_to(root).as_posix()] = folder
            folders.clear()
        if len(found) == MOST_RUNS:
            break
    return found


def described(name: str, folder: Path) -> dict[str, Any]:
    """What the list says about a run."""
    try:
        config = read_json(folder / "config.json")
        method, data = (config[part] for part in ("method", "data"))
        title = {"method": _name(method), "data": _name(data), "steps": int(config["meta"]["steps"])}
    except (RunError, OSError, KeyError, TypeError, ValueError):
        title = {"method": "unreadable settings", "data": "", "steps": 0}
    return {"name": name, **title, "finished": (folder / "result.json").is_file()}


def _name(value: dict[str, Any]) -> str:
    """The class of a method, and of what it wraps."""
    inner = [value[part]["kind"] for part in ("method", "selector") if isinstance(value.get(part), dict)]
    return " + ".join(map(str, inner)) if inner else str(value["kind"])


class Part(NamedTuple):
    """Complete lines of a file of metrics, and where they end."""

    lines: list[dict[str, Any]]
    end: int


def read_lines(folder: Path, start: int) -> Part:
    """The lines after `start`; what is not a line of numbers is passed over."""
    file = folder / "metrics.jsonl"
    if file.is_symlink() or not file.is_file():
        return Part([], start)
    with file.open("rb") as stream:
        size = stream.seek(0, os.SEEK_END)
        stream.seek(start if start <= size else 0)  # it was cut when a killed training was continued
        start = stream.tell()
        data = stream.read(MOST_BYTES)
    complete = data[: data.rfind(b"\n") + 1]
    lines = []
    for line in complete.splitlines():
        try:
            value = parse_json(line)
        except ValueError:
            continue
        if isinstance(value, dict) and value.get("kind") in KINDS:
            numbers = {name: one for name, one in value.items() if isinstance(one, int | float)}
            lines.append({"kind": value["kind"], **numbers})
    return Part(lines, start + len(complete))


async def follow(folder: Path) -> AsyncIterator[str]:
    """Server-sent events: all lines so far, then those that are added."""
    end, first = 0, True
    while True:
        before = end
        lines, end = await asyncio.to_thread(read_lines, folder, end)
        if end < before:
            yield "event: restart\ndata: {}\n\n"
        if lines or first:
            finished = (folder / "result.json").is_file()
            yield f"event: lines\ndata: {json.dumps({'lines': lines, 'finished': finished})}\n\n"
            first = False
        if end - before < MOST_BYTES // 2:
            await asyncio.sleep(SECONDS)
