"""Experiments that test the theory in the paper's appendices, one file each."""

from collections.abc import Callable

from eigen_reptile.recipes.study import Study
from eigen_reptile.recipes.theorems.discarding import discarding
from eigen_reptile.recipes.theorems.gradient_noise import gradient_noise
from eigen_reptile.recipes.theorems.spectrum import spectrum
from eigen_reptile.runtime.progress import StartProgress

THEORY: dict[str, Callable[[StartProgress], Study]] = {
    "gradient-noise": gradient_noise,
    "discarding": discarding,
    "spectrum": spectrum,
}

__all__ = ["THEORY"]
