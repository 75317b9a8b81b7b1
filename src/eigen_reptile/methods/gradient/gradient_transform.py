"""Meta-learnt transformations of MAML's inner gradients."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from eigen_reptile.methods.gradient.adapted_parameters import GradientMap
from eigen_reptile.nn.flat_module import FlatModule


@dataclass(frozen=True)
class GradientTransform(ABC):
    """Changes the inner gradients of MAML, with parameters that are meta-learnt together with the network."""

    @abstractmethod
    def init(self, module: FlatModule, seed: int) -> Float[Tensor, "E"]:
        """The parameters of the transform before training."""

    @abstractmethod
    def bind(self, module: FlatModule, parameters: Float[Tensor, "S B E"]) -> GradientMap:
        """The transform with these parameters."""


@final
@dataclass(frozen=True)
class NoTransform(GradientTransform):
    """Leaves the gradients as they are."""

    def init(self, module: FlatModule, seed: int) -> Float[Tensor, "E"]:
        return torch.zeros(0)

    def bind(self, module: FlatModule, parameters: Float[Tensor, "S B E"]) -> GradientMap:
        return lambda gradient: gradient
