"""Networks as functions of one flat vector of parameters."""

from eigen_reptile.nn.conv4 import Conv4
from eigen_reptile.nn.flat_module import FlatModule
from eigen_reptile.nn.losses import CrossEntropy, GeneralisedCrossEntropy, SampleLoss, SquaredError
from eigen_reptile.nn.mlp import Mlp
from eigen_reptile.nn.model import Model
from eigen_reptile.nn.network import Network

MODELS: dict[str, Model] = {"mlp": Mlp(), "conv4": Conv4(), "conv4-64": Conv4(filters=64)}

__all__ = [
    "MODELS",
    "Conv4",
    "CrossEntropy",
    "FlatModule",
    "GeneralisedCrossEntropy",
    "Mlp",
    "Model",
    "Network",
    "SampleLoss",
    "SquaredError",
]
