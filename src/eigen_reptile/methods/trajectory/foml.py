"""FOML: along the last step of the inner loop."""

from dataclasses import dataclass
from typing import final

from jaxtyping import Float
from torch import Tensor

from eigen_reptile.methods.trajectory.trajectory_method import TaskDirections, TrajectoryMethod, as_directions


@final
@dataclass(frozen=True)
class Foml(TrajectoryMethod):
    """First-order MAML as in the Reptile paper, https://arxiv.org/abs/1803.02999: along the last inner step.

    Use it to see how much of Reptile comes from its other inner steps.
    """

    def direction_of(self, W: Float[Tensor, "S B rows d"]) -> TaskDirections:
        return as_directions(W[:, :, -1] - W[:, :, -2])
