"""Meta-learning methods, one file each."""

from dataclasses import replace

from eigen_reptile.methods.averages import AverageGradients, AverageWeights
from eigen_reptile.methods.eigen_reptile import EigenReptile
from eigen_reptile.methods.method import Method, Proposal
from eigen_reptile.methods.reptile import Reptile

METHODS: dict[str, Method] = {
    "reptile": Reptile(),
    "eigen-reptile": EigenReptile(),
    "eigen-reptile-paper": EigenReptile.paper(),
    "eigen-reptile-authors": EigenReptile.authors(),
    "eigen-reptile-no-sign-fix": replace(EigenReptile.authors(), fix_sign=False),
    "average-weights": AverageWeights(),
    "average-gradients": AverageGradients(),
    "average-unit-gradients": AverageGradients(unit=True),
}

__all__ = [
    "METHODS",
    "AverageGradients",
    "AverageWeights",
    "EigenReptile",
    "Method",
    "Proposal",
    "Reptile",
]
