"""Settings from which a network is built."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

from torch import nn


@dataclass(frozen=True)
class Model(ABC):
    """A network architecture. For one of your own, subclass this, or give `FlatModule` a function that builds it."""

    @abstractmethod
    def build(self, shape: tuple[int, ...], outputs: int) -> nn.Module:
        """A freshly initialised network for inputs of this shape."""

    @property
    @abstractmethod
    def batched(self) -> bool:
        """Whether `Network` should run the networks of all tasks as one batched computation."""

    @property
    @abstractmethod
    def compile_from(self) -> int | None:
        """Number of outer iterations from which compiling pays off; None if it never does."""
