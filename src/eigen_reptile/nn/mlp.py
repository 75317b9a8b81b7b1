"""A fully connected network, as on the paper's sine wave."""

from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import final

from torch import nn

from eigen_reptile.errors import ConfigError
from eigen_reptile.nn.model import Model


@final
@dataclass(frozen=True)
class Mlp(Model):
    """A fully connected network with tanh between its layers."""

    hidden: tuple[int, ...] = (64, 64)
    """Width of each hidden layer."""

    def __post_init__(self) -> None:
        if any(width < 1 for width in self.hidden):
            raise ConfigError(f"`model.hidden` must hold widths of at least 1, not {self.hidden}")

    @property
    def batched(self) -> bool:
        # A wide network keeps the machine busy by itself, and its trajectories are better held one task at a time.
        return max(self.hidden, default=0) <= 512

    @property
    def compile_from(self) -> int | None:
        return 3000 if self.batched else None

    def build(self, shape: tuple[int, ...], outputs: int) -> nn.Module:
        layers: list[nn.Module] = []
        for before, after in pairwise((prod(shape), *self.hidden, outputs)):
            layers += [nn.Linear(before, after), nn.Tanh()]
        return nn.Sequential(*layers[:-1]) if len(shape) == 1 else nn.Sequential(nn.Flatten(), *layers[:-1])
