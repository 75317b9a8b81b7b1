"""The output options that all commands have."""

from dataclasses import dataclass
from typing import Annotated, final

import tyro

Switch = Annotated[bool, tyro.conf.FlagCreatePairsOff]


@final
@dataclass(frozen=True)
class Output:
    """What is printed."""

    quiet: Switch = False
    """Print only warnings and errors."""
    json: Switch = False
    """Print one JSON object instead of tables, and no progress bars."""
