"""The options of `demo`. The string below a field is its help text."""

from dataclasses import dataclass
from pathlib import Path
from typing import final


@final
@dataclass(frozen=True)
class DemoOptions:
    """Open a page in the browser on which you draw classes, mislabel examples, and see which method survives.

    Everything is computed on this machine, offline, from small initialisations that come with the package. The page is
    for this machine only, unless another host is given; then whoever is to see it needs the token in the address.
    """

    host: str = "127.0.0.1"
    """Address to serve on; 0.0.0.0 is every one that this machine has."""
    port: int = 8421
    """Port to serve on; 0 is any that is free. The page remembers drawings by host and port."""
    runs: Path | None = None
    """Folder of run folders, which the page shows while trainings write to them."""
    browser: bool = True
    """Open the page in the browser."""
