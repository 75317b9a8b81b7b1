"""Reptile (Nichol, Achiam, Schulman 2018): towards the last point of the inner loop."""

from dataclasses import dataclass
from typing import final

from jaxtyping import Float
from torch import Tensor

from eigen_reptile.methods.method import Stats, TrajectoryMethod


@final
@dataclass(frozen=True)
class Reptile(TrajectoryMethod):
    """Towards the last point of the inner loop, averaged over the tasks (paper, eq. 2)."""

    def direction(self, W: Float[Tensor, "S B rows d"]) -> tuple[Float[Tensor, "S d"], Stats]:
        moved = W[:, :, -1] - W[:, :, 0]
        return moved.mean(1), {"length": moved.norm(dim=-1).mean(1)}
