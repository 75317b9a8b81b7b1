"""What the paper publishes: on which data, and every accuracy of tables 1 to 3 (5-way, in per cent).

This is the only place that holds them. Rows have the names of this library's methods.
"""

from collections.abc import Mapping

from eigen_reptile.data import CifarFs, Dataset, MiniImagenet, Omniglot, Sine
from eigen_reptile.recipes.recipe import PublishedAccuracy

DATA: tuple[type[Dataset], ...] = (Sine, MiniImagenet, CifarFs, Omniglot)
"""The data sets on which its claims are measured: those of the paper, and Omniglot. It has no results on any other."""

PublishedTable = Mapping[tuple[str, int], PublishedAccuracy]
"""By row and number of shots."""


def _one_and_five_shot(rows: Mapping[str, tuple[PublishedAccuracy, PublishedAccuracy]]) -> PublishedTable:
    return {(row, shots): pair[place] for row, pair in rows.items() for place, shots in enumerate((1, 5))}


MINI_IMAGENET = _one_and_five_shot(
    {
        "maml": (PublishedAccuracy(48.70, 1.84), PublishedAccuracy(63.11, 0.92)),
        "fomaml": (PublishedAccuracy(48.07, 1.75), PublishedAccuracy(63.15, 0.91)),
        "gnn": (PublishedAccuracy(50.30, None), PublishedAccuracy(66.40, None)),
        "taml": (PublishedAccuracy(51.77, 1.86), PublishedAccuracy(65.60, 0.93)),
        "meta-dropout": (PublishedAccuracy(51.93, 0.67), PublishedAccuracy(67.42, 0.52)),
        "warp-maml": (PublishedAccuracy(52.30, 0.80), PublishedAccuracy(68.40, 0.60)),
        "meta-curvature": (PublishedAccuracy(54.08, 0.93), PublishedAccuracy(67.99, 0.73)),
        "sparse-maml": (PublishedAccuracy(51.04, 0.59), PublishedAccuracy(68.05, 0.84)),
        "metal": (PublishedAccuracy(52.63, 0.37), PublishedAccuracy(70.52, 0.29)),
        "mixtfsl": (PublishedAccuracy(52.82, 0.63), PublishedAccuracy(70.67, 0.57)),
        "reptile": (PublishedAccuracy(49.97, 0.32), PublishedAccuracy(65.99, 0.58)),
        "eigen-reptile": (PublishedAccuracy(51.80, 0.90), PublishedAccuracy(68.10, 0.50)),
        "eigen-reptile-64": (PublishedAccuracy(53.25, 0.45), PublishedAccuracy(69.85, 0.85)),
    }
)
"""Table 1. Eigen-Reptile has 32 filters, `eigen-reptile-64` has 64."""

CIFAR_FS = _one_and_five_shot(
    {
        "maml": (PublishedAccuracy(58.90, 1.90), PublishedAccuracy(71.50, 1.00)),
        "prototypical": (PublishedAccuracy(55.50, 0.70), PublishedAccuracy(72.00, 0.60)),
        "gnn": (PublishedAccuracy(61.90, None), PublishedAccuracy(75.30, None)),
        "ecm": (PublishedAccuracy(55.14, 0.48), PublishedAccuracy(71.66, 0.39)),
        "reptile": (PublishedAccuracy(58.30, 1.20), PublishedAccuracy(75.45, 0.55)),
        "eigen-reptile": (PublishedAccuracy(61.90, 1.40), PublishedAccuracy(78.30, 0.50)),
    }
)
"""Table 2."""

NOISES = ("p0", "s10", "as10", "s20", "as20", "s50", "as50")
"""The columns of table 3: no noise, then symmetric (s) and asymmetric (as) noise, with its rate in per cent."""

_NOISY_ROWS = {
    "metal": (47.80, 44.64, 45.20, 39.80, 40.42, 27.05, 31.76),
    "reptile": (47.64, 46.08, 47.30, 43.49, 45.51, 23.33, 42.03),
    "reptile-ispl": (47.23, 46.50, 47.00, 43.70, 45.42, 21.83, 41.09),
    "eigen-reptile": (47.87, 47.18, 47.42, 45.01, 46.50, 27.23, 42.29),
    "eigen-reptile-ispl": (47.26, 47.20, 47.24, 45.49, 46.83, 28.68, 43.71),
}

NOISY_MINI_IMAGENET: PublishedTable = {
    (f"{row}-{noise}", 1): PublishedAccuracy(mean, None)
    for row, means in _NOISY_ROWS.items()
    for noise, mean in zip(NOISES, means, strict=True)
}
"""Table 3, mini-ImageNet with wrong labels in training; the paper gives no intervals."""

TRANFS = {
    "prototypical networks": {0.0: 68.3, 0.4: 51.4, 0.6: 38.3},
    "TraNFS-3": {0.0: 68.5, 0.4: 56.7, 0.6: 42.6},
}
"""Accuracies by rate of symmetric noise in the support, of Liang et al. 2022, https://arxiv.org/abs/2204.05494:
mini-ImageNet, 5-way 5-shot, Conv4, 10,000 tasks. They are not of the paper."""


def accuracies_by_cell(table: PublishedTable, rows: Mapping[str, str]) -> dict[tuple[str, int], PublishedAccuracy]:
    """The numbers of a table by the cells of a recipe; `rows` has the row of the table for each cell."""
    return {
        (cell, shots): accuracy
        for cell, row in rows.items()
        for (name, shots), accuracy in table.items()
        if name == row
    }
