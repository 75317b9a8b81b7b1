"""Few-shot learning that is robust to noise: Eigen-Reptile and the methods it is compared with."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from eigen_reptile.data import (
        DATASETS as DATASETS,
        CifarFs as CifarFs,
        Fc100 as Fc100,
        Folder as Folder,
        Glyphs as Glyphs,
        MiniImagenet as MiniImagenet,
        Omniglot as Omniglot,
        Sine as Sine,
    )
    from eigen_reptile.direction import MainDirection as MainDirection, main_direction as main_direction
    from eigen_reptile.errors import ConfigError as ConfigError, DataError as DataError, RunError as RunError
    from eigen_reptile.methods import (
        METHODS as METHODS,
        AverageGradients as AverageGradients,
        AverageWeights as AverageWeights,
        Ecm as Ecm,
        EigenReptile as EigenReptile,
        Foml as Foml,
        Gnn as Gnn,
        Ispl as Ispl,
        Maml as Maml,
        MetaDropout as MetaDropout,
        Metal as Metal,
        Method as Method,
        MixtFsl as MixtFsl,
        Prototypical as Prototypical,
        Reptile as Reptile,
        RobustLoss as RobustLoss,
        SelfPaced as SelfPaced,
        WithSampleSelection as WithSampleSelection,
    )
    from eigen_reptile.nn import (
        Conv4 as Conv4,
        CrossEntropy as CrossEntropy,
        FlatModule as FlatModule,
        Mlp as Mlp,
        Network as Network,
        SquaredError as SquaredError,
    )
    from eigen_reptile.practice.classifier import FewShotClassifier as FewShotClassifier
    from eigen_reptile.training import (
        Experiment as Experiment,
        Result as Result,
        preset as preset,
        run as run,
    )

_HOME = {
    "data": "DATASETS CifarFs Fc100 Folder Glyphs MiniImagenet Omniglot Sine",
    "direction": "MainDirection main_direction",
    "errors": "ConfigError DataError RunError",
    "methods": (
        "METHODS AverageGradients AverageWeights Ecm EigenReptile Foml Gnn Ispl Maml MetaDropout Metal Method MixtFsl "
        "Prototypical Reptile RobustLoss SelfPaced WithSampleSelection"
    ),
    "nn": "Conv4 CrossEntropy FlatModule Mlp Network SquaredError",
    "practice.classifier": "FewShotClassifier",
    "training": "Experiment Result preset run",
}
_MODULE_OF = {name: f"eigen_reptile.{module}" for module, names in _HOME.items() for name in names.split()}

__all__ = sorted(_MODULE_OF)


def __getattr__(name: str) -> Any:
    """Import on first use: torch takes more than a second, which `eigen-reptile --help` should not wait for."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULE_OF[name]), name)


def __dir__() -> list[str]:
    return __all__
