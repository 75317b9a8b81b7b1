"""Meta-learning methods, one file each."""

from dataclasses import replace

from eigen_reptile.methods.averages import AverageGradients, AverageWeights
from eigen_reptile.methods.eigen_reptile import EigenReptile
from eigen_reptile.methods.ispl import Ispl
from eigen_reptile.methods.method import Iteration, Method, Proposal
from eigen_reptile.methods.reptile import Reptile
from eigen_reptile.methods.selected import Selected, Selector
from eigen_reptile.methods.self_paced import SelfPaced

METHODS: dict[str, Method] = {
    "reptile": Reptile(),
    "eigen-reptile": EigenReptile(),
    "eigen-reptile-paper": EigenReptile.paper(),
    "eigen-reptile-authors": EigenReptile.authors(),
    "eigen-reptile-no-sign-fix": replace(EigenReptile.authors(), fix_sign=False),
    "reptile-ispl": Selected(Reptile(), Ispl()),
    "eigen-reptile-ispl": Selected(EigenReptile(), Ispl()),
    "eigen-reptile-ispl-paper": Selected(EigenReptile(), Ispl.paper()),
    "eigen-reptile-ispl-authors": Selected(EigenReptile(), Ispl.authors()),
    "eigen-reptile-spl": Selected(EigenReptile(), SelfPaced()),
    "average-weights": AverageWeights(),
    "average-gradients": AverageGradients(),
    "average-unit-gradients": AverageGradients(unit=True),
}

__all__ = [
    "METHODS",
    "AverageGradients",
    "AverageWeights",
    "EigenReptile",
    "Ispl",
    "Iteration",
    "Method",
    "Proposal",
    "Reptile",
    "Selected",
    "Selector",
    "SelfPaced",
]
