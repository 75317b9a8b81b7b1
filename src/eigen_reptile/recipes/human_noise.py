"""The confusions of human annotators: those of CIFAR-100N, class by class, in the training classes of CIFAR-FS."""

from pathlib import Path

from eigen_reptile.data import CifarFs
from eigen_reptile.noise import NoiseConfig
from eigen_reptile.recipes.noisy import SMALL as NOISY_SMALL
from eigen_reptile.recipes.noisy import TABLE_3, cells_under
from eigen_reptile.recipes.recipe import Recipe

TABLE = Path("cifar100n_transition_counts.csv")
"""How often annotators took each of the 100 classes for each other; looked for where data sets are."""

SMALL = NOISY_SMALL._replace(steps=1000)

HUMAN_NOISE = Recipe(
    "Table 3's methods under the confusions of human annotators (CIFAR-100N); not in the paper.",
    lambda scale: cells_under(
        {"human": NoiseConfig("matrix", where="bank", file=TABLE)}, TABLE_3, CifarFs(), scale, SMALL
    ),
)
