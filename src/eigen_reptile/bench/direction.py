"""The main direction of a very long trajectory, against reading it once."""

from functools import partial

import torch

from eigen_reptile.bench.turns import Contender, Entry, Figures, race
from eigen_reptile.direction import main_direction
from eigen_reptile.progress import Announce

ROWS = 8
SIZES = (100_000, 1_000_000, 10_000_000)


def direction(repeats: int, announce: Announce) -> Figures:
    """Main directions per second of 8 rows of up to 10 million parameters, against `W.sum()`."""
    groups = {
        f"{ROWS} x {columns:,}": {
            "W.sum()": Entry(partial(summed, columns)),
            "main_direction(W)": Entry(partial(directed, columns)),
        }
        for columns in SIZES
    }
    about = "Calls per second on a float32 trajectory, against the time that it takes to read it once."
    return race("Main direction", about, groups, ("W.sum()",), repeats, announce)


def summed(columns: int) -> Contender:
    W = _walk(columns)

    def contender() -> None:
        W.sum()

    return contender


def directed(columns: int) -> Contender:
    W = _walk(columns)

    def contender() -> None:
        main_direction(W)

    return contender


def _walk(columns: int) -> torch.Tensor:
    return torch.randn(ROWS, columns, generator=torch.Generator().manual_seed(0)).cumsum(0)
