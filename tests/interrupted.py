"""Runs that are interrupted."""

from collections.abc import Mapping
from pathlib import Path

from eigen_reptile.runtime.progress import StartProgress, no_progress


class Interrupted(Exception):
    """Stands for whatever ends a process."""


def interrupt_at(step: int, folder: Path) -> StartProgress:
    """Interrupts the training when it reports this step."""

    def report(done: int, metrics: Mapping[str, float]) -> None:
        if done == step:
            raise Interrupted

    return lambda name, total: report if name == folder.name else no_progress(name, total)
