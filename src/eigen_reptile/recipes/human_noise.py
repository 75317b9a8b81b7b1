"""Table 3's methods under human label noise: the class-transition matrix of CIFAR-100N on CIFAR-FS."""

from pathlib import Path

from eigen_reptile.data import CifarFs
from eigen_reptile.noise import NoiseConfig
from eigen_reptile.recipes.noisy import SMALL as NOISY_SMALL, TABLE_3, noisy_cells
from eigen_reptile.recipes.recipe import Recipe

TABLE = Path("cifar100n_transition_counts.csv")
"""How often annotators confused each of the 100 classes with each other one; searched for where the data sets are."""

SMALL = NOISY_SMALL._replace(steps=1000)

HUMAN_NOISE = Recipe(
    "Table 3's methods under human label noise (CIFAR-100N); not in the paper.",
    lambda scale: noisy_cells(
        {"human": NoiseConfig("matrix", where="bank", file=TABLE)}, TABLE_3, CifarFs(), scale, SMALL
    ),
)
