"""Data sets, one file each: each reads files or evaluates a formula, and returns three banks of tasks."""

from eigen_reptile.data.bank import Bank, Banks, Dataset, FiniteBank, Samples, Split, TaskShape, require_finite
from eigen_reptile.data.datasets.cifar import CifarFs, Fc100
from eigen_reptile.data.datasets.folder import Folder
from eigen_reptile.data.datasets.glyphs import Glyphs
from eigen_reptile.data.datasets.mini_imagenet import MiniImagenet
from eigen_reptile.data.datasets.omniglot import Omniglot
from eigen_reptile.data.datasets.sine import Sine
from eigen_reptile.data.image_bank import ImageBank
from eigen_reptile.data.image_dataset import data_folder
from eigen_reptile.data.sampling import epoch_batches, epoch_indices, sample_tasks

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
    "Dataset",
    "Fc100",
    "FiniteBank",
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
    "epoch_batches",
    "epoch_indices",
    "require_finite",
    "sample_tasks",
]
