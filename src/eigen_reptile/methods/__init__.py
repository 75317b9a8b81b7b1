"""Meta-learning methods, one file each."""

from dataclasses import replace

from eigen_reptile.methods.averages import AverageGradients, AverageWeights
from eigen_reptile.methods.ecm import Ecm
from eigen_reptile.methods.eigen_reptile import EigenReptile
from eigen_reptile.methods.foml import Foml
from eigen_reptile.methods.gnn import Gnn
from eigen_reptile.methods.ispl import Ispl
from eigen_reptile.methods.maml import Maml
from eigen_reptile.methods.meta_curvature import MetaCurvature
from eigen_reptile.methods.meta_dropout import MetaDropout
from eigen_reptile.methods.metal import Metal
from eigen_reptile.methods.method import Adaptation, Domain, Iteration, Method, Proposal
from eigen_reptile.methods.mixtfsl import MixtFsl
from eigen_reptile.methods.prototypical import Prototypical
from eigen_reptile.methods.reptile import Reptile
from eigen_reptile.methods.robust import Robust
from eigen_reptile.methods.selected import Selected, Selector
from eigen_reptile.methods.self_paced import SelfPaced
from eigen_reptile.methods.sparse_maml import SparseMaml
from eigen_reptile.methods.taml import Taml
from eigen_reptile.methods.warp_maml import WarpMaml

METHODS: dict[str, Method] = {
    "reptile": Reptile(),
    "eigen-reptile": EigenReptile(),
    "eigen-reptile-paper": EigenReptile.paper(),
    "eigen-reptile-authors": EigenReptile.authors(),
    "eigen-reptile-no-sign-fix": replace(EigenReptile.authors(), fix_sign=False),
    "reptile-ispl": Selected(Reptile(), Ispl()),
    "eigen-reptile-ispl": Selected(EigenReptile(), Ispl()),
    "eigen-reptile-ispl-paper": Selected(EigenReptile(), Ispl.paper()),
    "eigen-reptile-ispl-authors": Selected(EigenReptile(), Ispl.authors_bytecode()),
    "eigen-reptile-spl": Selected(EigenReptile(), SelfPaced()),
    "reptile-gce": Robust(Reptile()),
    "eigen-reptile-gce": Robust(EigenReptile()),
    "foml": Foml(),
    "maml": Maml(),
    "fomaml": Maml(order=1),
    "anil": Maml(adapts="head"),
    "boil": Maml(adapts="body"),
    "maml-ispl": Selected(Maml(), Ispl()),
    "fomaml-ispl": Selected(Maml(order=1), Ispl()),
    "taml": Taml(),
    "taml-theil": Taml(bias="theil"),
    "meta-curvature": MetaCurvature(),
    "sparse-maml": SparseMaml(),
    "warp-maml": WarpMaml(),
    "metal": Metal(),
    "meta-dropout": MetaDropout(),
    "prototypical": Prototypical(),
    "gnn": Gnn(),
    "ecm": Ecm(),
    "mixtfsl": MixtFsl(),
    "average-weights": AverageWeights(),
    "average-gradients": AverageGradients(),
    "average-unit-gradients": AverageGradients(unit=True),
}

__all__ = [
    "METHODS",
    "Adaptation",
    "AverageGradients",
    "AverageWeights",
    "Domain",
    "Ecm",
    "EigenReptile",
    "Foml",
    "Gnn",
    "Ispl",
    "Iteration",
    "Maml",
    "MetaCurvature",
    "MetaDropout",
    "Metal",
    "Method",
    "MixtFsl",
    "Proposal",
    "Prototypical",
    "Reptile",
    "Robust",
    "Selected",
    "Selector",
    "SelfPaced",
    "SparseMaml",
    "Taml",
    "WarpMaml",
]
