"""Data sets, one file each: what is on disk, or a formula, becomes three banks of tasks."""

from eigen_reptile.data.bank import Bank, Banks, DataError, Dataset, Samples, Split, TaskShape
from eigen_reptile.data.cifar import CifarFs, Fc100
from eigen_reptile.data.images import ImageBank
from eigen_reptile.data.sine import Sine

DATASETS: dict[str, Dataset] = {
    "sine": Sine(),
    "cifar-fs": CifarFs(),
    "fc100": Fc100(),
}

__all__ = [
    "DATASETS",
    "Bank",
    "Banks",
    "CifarFs",
    "DataError",
    "Dataset",
    "Fc100",
    "ImageBank",
    "Samples",
    "Sine",
    "Split",
    "TaskShape",
]
