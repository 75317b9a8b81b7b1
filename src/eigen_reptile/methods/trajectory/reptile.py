"""Reptile: towards the last point of the inner loop."""

from dataclasses import dataclass
from typing import final

from jaxtyping import Float
from torch import Tensor

from eigen_reptile.methods.trajectory.trajectory_method import TaskDirections, TrajectoryMethod, as_directions


@final
@dataclass(frozen=True)
class Reptile(TrajectoryMethod):
    """Nichol, Achiam and Schulman 2018, https://arxiv.org/abs/1803.02999: towards the last point of the inner loop.

    The cheapest method with an inner loop: first-order, no query samples. Use it as the baseline.
    """

    def direction_of(self, W: Float[Tensor, "S B rows d"]) -> TaskDirections:
        return as_directions(W[:, :, -1] - W[:, :, 0])  # paper, eq. 2
