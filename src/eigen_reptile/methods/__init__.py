"""Meta-learning methods, one file each, by what they learn from: trajectories, gradients or distances."""

from dataclasses import replace

from eigen_reptile.methods.gradient.adapted_parameters import AdaptedParameters
from eigen_reptile.methods.gradient.gradient_method import GradientMethod
from eigen_reptile.methods.gradient.gradient_transform import GradientTransform
from eigen_reptile.methods.gradient.maml import Maml
from eigen_reptile.methods.gradient.meta_curvature import MetaCurvature
from eigen_reptile.methods.gradient.meta_dropout import MetaDropout
from eigen_reptile.methods.gradient.metal import Metal
from eigen_reptile.methods.gradient.objective import Objective
from eigen_reptile.methods.gradient.sparse_mask import SparseMask
from eigen_reptile.methods.gradient.task_agnostic import EntropyReduction, LossInequality
from eigen_reptile.methods.gradient.warp import WarpedSteps
from eigen_reptile.methods.method import Adaptation, MetaBatch, MetaUpdate, Method, Requirements, TaskSpec
from eigen_reptile.methods.metric.ecm import Ecm
from eigen_reptile.methods.metric.gnn import Gnn
from eigen_reptile.methods.metric.metric_method import MetricMethod
from eigen_reptile.methods.metric.mixtfsl import MixtFsl
from eigen_reptile.methods.metric.prototypical import Prototypical
from eigen_reptile.methods.trajectory.averages import AverageGradients, AverageWeights
from eigen_reptile.methods.trajectory.eigen_reptile import EigenReptile
from eigen_reptile.methods.trajectory.foml import Foml
from eigen_reptile.methods.trajectory.reptile import Reptile
from eigen_reptile.methods.trajectory.trajectory_method import TrajectoryMethod
from eigen_reptile.methods.wrappers.ispl import Ispl
from eigen_reptile.methods.wrappers.robust_loss import RobustLoss
from eigen_reptile.methods.wrappers.sample_selection import SampleSelector, WithSampleSelection
from eigen_reptile.methods.wrappers.self_paced import SelfPaced

METHODS: dict[str, Method] = {
    "reptile": Reptile(),
    "eigen-reptile": EigenReptile(),
    "eigen-reptile-paper": EigenReptile.paper(),
    "eigen-reptile-authors": EigenReptile.authors(),
    "eigen-reptile-no-sign-fix": replace(EigenReptile.authors(), fix_sign=False),
    "reptile-ispl": WithSampleSelection(Reptile(), Ispl()),
    "eigen-reptile-ispl": WithSampleSelection(EigenReptile(), Ispl()),
    "eigen-reptile-ispl-paper": WithSampleSelection(EigenReptile(), Ispl.paper()),
    "eigen-reptile-ispl-authors": WithSampleSelection(EigenReptile(), Ispl.authors()),
    "eigen-reptile-spl": WithSampleSelection(EigenReptile(), SelfPaced()),
    "reptile-gce": RobustLoss(Reptile()),
    "eigen-reptile-gce": RobustLoss(EigenReptile()),
    "foml": Foml(),
    "maml": Maml(),
    "fomaml": Maml(order=1),
    "anil": Maml(adapted=AdaptedParameters(layers="head")),
    "boil": Maml(adapted=AdaptedParameters(layers="body")),
    "maml-ispl": WithSampleSelection(Maml(), Ispl()),
    "fomaml-ispl": WithSampleSelection(Maml(order=1), Ispl()),
    "taml": Maml(objective=EntropyReduction()),
    "taml-theil": Maml(objective=LossInequality("theil")),
    "meta-curvature": Maml(transform=MetaCurvature()),
    "sparse-maml": Maml(order=1, adapted=AdaptedParameters(norms=True), transform=SparseMask()),
    "warp-maml": Maml(adapted=AdaptedParameters(frozen=("warp",)), objective=WarpedSteps()),
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
    "AdaptedParameters",
    "AverageGradients",
    "AverageWeights",
    "Ecm",
    "EigenReptile",
    "EntropyReduction",
    "Foml",
    "Gnn",
    "GradientMethod",
    "GradientTransform",
    "Ispl",
    "LossInequality",
    "Maml",
    "MetaBatch",
    "MetaCurvature",
    "MetaDropout",
    "MetaUpdate",
    "Metal",
    "Method",
    "MetricMethod",
    "MixtFsl",
    "Objective",
    "Prototypical",
    "Reptile",
    "Requirements",
    "RobustLoss",
    "SampleSelector",
    "SelfPaced",
    "SparseMask",
    "TaskSpec",
    "TrajectoryMethod",
    "WarpedSteps",
    "WithSampleSelection",
]
