"""Recipes: the experiments behind each table and figure of the paper, one file each."""

from eigen_reptile.recipes.all_methods import ALL_METHODS, ALL_METHODS_OMNIGLOT
from eigen_reptile.recipes.cifar_fs import CIFAR_FS
from eigen_reptile.recipes.human_noise import HUMAN_NOISE
from eigen_reptile.recipes.inner_steps import INNER_STEPS
from eigen_reptile.recipes.mini_imagenet import MINI_IMAGENET
from eigen_reptile.recipes.noisy import NOISY
from eigen_reptile.recipes.omniglot import OMNIGLOT
from eigen_reptile.recipes.recipe import PublishedAccuracy, Recipe, Scale
from eigen_reptile.recipes.sine import SINE
from eigen_reptile.recipes.support_noise import SUPPORT_NOISE, SUPPORT_NOISE_OMNIGLOT

RECIPES: dict[str, Recipe] = {
    "sine": SINE,
    "cifar-fs": CIFAR_FS,
    "mini-imagenet": MINI_IMAGENET,
    "omniglot": OMNIGLOT,
    "inner-steps": INNER_STEPS,
    "noisy": NOISY,
    "human-noise": HUMAN_NOISE,
    "all-methods": ALL_METHODS,
    "all-methods-omniglot": ALL_METHODS_OMNIGLOT,
    "support-noise": SUPPORT_NOISE,
    "support-noise-omniglot": SUPPORT_NOISE_OMNIGLOT,
}

__all__ = ["RECIPES", "PublishedAccuracy", "Recipe", "Scale"]
