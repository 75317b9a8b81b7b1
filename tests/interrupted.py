"""Runs that are broken off."""

from collections.abc import Mapping
from pathlib import Path

from eigen_reptile.progress import Announce, silent


class Interrupted(Exception):
    pass


def interrupt_at(step: int, folder: Path) -> Announce:
    """Breaks the training off when it reports this step."""

    def report(done: int, numbers: Mapping[str, float]) -> None:
        if done == step:
            raise Interrupted

    return lambda name, total: report if name == folder.name else silent(name, total)
