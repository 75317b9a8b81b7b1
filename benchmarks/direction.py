"""The main direction of trajectories with many parameters, against reading them once."""

from functools import partial

import torch

from benchmarks.timing import Contender, ContenderFactory, compare_speeds
from eigen_reptile.direction import main_direction
from eigen_reptile.report.benchmark import BenchmarkTable
from eigen_reptile.runtime.progress import StartProgress

ROWS = 8
SIZES = (100_000, 1_000_000, 10_000_000)


def direction(repeats: int, start_progress: StartProgress) -> BenchmarkTable:
    """Main directions per second of trajectories with 8 rows and up to 10 million parameters, against `W.sum()`."""
    groups = {
        f"{ROWS} x {columns:,}": {
            "W.sum()": ContenderFactory(partial(sum_contender, columns)),
            "main_direction(W)": ContenderFactory(partial(direction_contender, columns)),
        }
        for columns in SIZES
    }
    about = "Calls per second on a float32 trajectory, against reading it once."
    return compare_speeds("Main direction", about, groups, ("W.sum()",), repeats, start_progress)


def sum_contender(columns: int) -> Contender:
    W = _random_walk(columns)

    def contender() -> None:
        W.sum()

    return contender


def direction_contender(columns: int) -> Contender:
    W = _random_walk(columns)

    def contender() -> None:
        main_direction(W)

    return contender


def _random_walk(columns: int) -> torch.Tensor:
    return torch.randn(ROWS, columns, generator=torch.Generator().manual_seed(0)).cumsum(0)
