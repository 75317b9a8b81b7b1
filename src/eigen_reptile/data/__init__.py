"""Data sets, one file each: what is on disk, or a formula, becomes three banks of tasks."""

from eigen_reptile.data.bank import Bank, Banks, DataError, Dataset, Samples, Split, TaskShape
from eigen_reptile.data.cifar import CifarFs, Fc100
from eigen_reptile.data.folder import Folder
from eigen_reptile.data.glyphs import Glyphs
from eigen_reptile.data.images import ImageBank
from eigen_reptile.data.mini_imagenet import MiniImagenet
from eigen_reptile.data.omniglot import Omniglot
from eigen_reptile.data.packing import data_folder
from eigen_reptile.data.sine import Sine

DATASETS: dict[str, Dataset] = {
    "sine": Sine(),
    "glyphs": Glyphs(),
    "folder": Folder(),
    "cifar-fs": CifarFs(),
    "fc100": Fc100(),
    "mini-imagenet": MiniImagenet(),
    "omniglot": Omniglot(),
}

__all__ = [
    "DATASETS",
    "Bank",
    "Banks",
    "CifarFs",
    "DataError",
    "Dataset",
    "Fc100",
    "Folder",
    "Glyphs",
    "ImageBank",
    "MiniImagenet",
    "Omniglot",
    "Samples",
    "Sine",
    "Split",
    "TaskShape",
    "data_folder",
]
