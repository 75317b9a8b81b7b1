"""Data sets, one file each: what is on disk, or a formula, becomes a `Bank` of tasks."""

from eigen_reptile.data.bank import Bank, Samples
from eigen_reptile.data.sine import Sine

DATASETS: dict[str, type[Bank]] = {"sine": Sine}

__all__ = ["DATASETS", "Bank", "Samples", "Sine"]
