"""Few-shot learning that is robust to noise: Eigen-Reptile and the methods it is compared with."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from eigen_reptile.data import (
        DATASETS as DATASETS,
    )
    from eigen_reptile.data import (
        CifarFs as CifarFs,
    )
    from eigen_reptile.data import (
        Fc100 as Fc100,
    )
    from eigen_reptile.data import (
        Folder as Folder,
    )
    from eigen_reptile.data import (
        Glyphs as Glyphs,
    )
    from eigen_reptile.data import (
        MiniImagenet as MiniImagenet,
    )
    from eigen_reptile.data import (
        Omniglot as Omniglot,
    )
    from eigen_reptile.data import (
        Sine as Sine,
    )
    from eigen_reptile.direction import MainDirection as MainDirection
    from eigen_reptile.direction import main_direction as main_direction
    from eigen_reptile.errors import ConfigError as ConfigError
    from eigen_reptile.errors import DataError as DataError
    from eigen_reptile.errors import RunError as RunError
    from eigen_reptile.methods import (
        METHODS as METHODS,
    )
    from eigen_reptile.methods import (
        AverageGradients as AverageGradients,
    )
    from eigen_reptile.methods import (
        AverageWeights as AverageWeights,
    )
    from eigen_reptile.methods import (
        Ecm as Ecm,
    )
    from eigen_reptile.methods import (
        EigenReptile as EigenReptile,
    )
    from eigen_reptile.methods import (
        Foml as Foml,
    )
    from eigen_reptile.methods import (
        Gnn as Gnn,
    )
    from eigen_reptile.methods import (
        Ispl as Ispl,
    )
    from eigen_reptile.methods import (
        Maml as Maml,
    )
    from eigen_reptile.methods import (
        MetaDropout as MetaDropout,
    )
    from eigen_reptile.methods import (
        Metal as Metal,
    )
    from eigen_reptile.methods import (
        Method as Method,
    )
    from eigen_reptile.methods import (
        MixtFsl as MixtFsl,
    )
    from eigen_reptile.methods import (
        Prototypical as Prototypical,
    )
    from eigen_reptile.methods import (
        Reptile as Reptile,
    )
    from eigen_reptile.methods import (
        RobustLoss as RobustLoss,
    )
    from eigen_reptile.methods import (
        SelfPaced as SelfPaced,
    )
    from eigen_reptile.methods import (
        WithSampleSelection as WithSampleSelection,
    )
    from eigen_reptile.nn import Conv4 as Conv4
    from eigen_reptile.nn import CrossEntropy as CrossEntropy
    from eigen_reptile.nn import FlatModule as FlatModule
    from eigen_reptile.nn import Mlp as Mlp
    from eigen_reptile.nn import Network as Network
    from eigen_reptile.nn import SquaredError as SquaredError
    from eigen_reptile.training import (
        Experiment as Experiment,
    )
    from eigen_reptile.training import (
        Result as Result,
    )
    from eigen_reptile.training import (
        preset as preset,
    )
    from eigen_reptile.training import (
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
