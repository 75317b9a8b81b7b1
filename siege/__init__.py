"""A siege of the software: kills, faults, damaged and hostile files, random command lines.

Every case is determined by a seed and its number, and can be repeated alone. A case fails if something happens that
docs/reliability.md promises never to happen.
"""

from siege.case import Part
from siege.commands import COMMANDS
from siege.concurrency import CONCURRENCY
from siege.corruption import CORRUPTION
from siege.disks import DISKS
from siege.kills import KILLS
from siege.readers import READERS
from siege.workers import WORKERS

PARTS: dict[str, Part] = {
    "kills": KILLS,
    "corruption": CORRUPTION,
    "readers": READERS,
    "commands": COMMANDS,
    "concurrency": CONCURRENCY,
    "disks": DISKS,
    "workers": WORKERS,
}

__all__ = ["PARTS"]
