"""Recipes: one file per table or figure of the paper, each a dict from cell name to experiment."""

from collections.abc import Callable

from eigen_reptile.config import Experiment
from eigen_reptile.recipes.sine import sine

RECIPES: dict[str, Callable[[], dict[str, Experiment]]] = {"sine": sine}

__all__ = ["RECIPES"]
