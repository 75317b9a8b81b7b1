"""Reptile (Nichol, Achiam, Schulman 2018): towards the last point of the inner loop."""

from dataclasses import dataclass
from typing import final

from jaxtyping import Float
from torch import Tensor

from eigen_reptile.methods.method import Moves, TrajectoryMethod, along


@final
@dataclass(frozen=True)
class Reptile(TrajectoryMethod):
    """Towards the last point of the inner loop, averaged over the tasks (paper, eq. 2)."""

    def moves(self, W: Float[Tensor, "S B rows d"]) -> Moves:
        return along(W[:, :, -1] - W[:, :, 0])
