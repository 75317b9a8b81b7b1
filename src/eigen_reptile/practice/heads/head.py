"""The interface of every head: from labelled feature vectors to a classifier of feature vectors."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple, final

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import one_hot


class Support(NamedTuple):
    """The labelled features of T tasks, each with m samples of `way` classes. A class may have no samples."""

    x: Float[Tensor, "T m F"]
    y: Int[Tensor, "T m"]
    way: int

    @property
    def one_hot(self) -> Float[Tensor, "T m way"]:
        return one_hot(self.y, self.way).to(self.x)

    def double(self) -> "Support":
        """The same in double precision."""
        return self._replace(x=self.x.double())


class FittedHead(ABC):
    """A classifier of feature vectors for each of T tasks."""

    @abstractmethod
    def logits(self, x: Float[Tensor, "T q F"]) -> Float[Tensor, "T q way"]: ...


@final
@dataclass(frozen=True)
class LinearHead(FittedHead):
    """Logits that are affine in the features; what most heads learn."""

    weight: Float[Tensor, "T way F"]
    bias: Float[Tensor, "T way"]

    def logits(self, x: Float[Tensor, "T q F"]) -> Float[Tensor, "T q way"]:
        return torch.baddbmm(self.bias[:, None], x.to(self.weight), self.weight.mT)


@dataclass(frozen=True)
class Head(ABC):
    """A way to learn a classifier from a support set: a frozen object whose fields are its hyper-parameters.

    A head is deterministic, and all tasks are learnt at once.
    """

    @abstractmethod
    def fit(self, support: Support) -> FittedHead: ...
