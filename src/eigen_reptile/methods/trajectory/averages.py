"""The averages with which the paper compares the main direction (section 5.1, figure 4)."""

from dataclasses import dataclass
from typing import final

from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import normalize

from eigen_reptile.methods.trajectory.trajectory_method import TaskDirections, TrajectoryMethod, as_directions


@final
@dataclass(frozen=True)
class AverageWeights(TrajectoryMethod):
    """Chen et al. 2022, section 5.1: towards the mean of the points after each inner step.

    A baseline for the main direction that averages the trajectory without any eigenvector.
    """

    def direction_of(self, W: Float[Tensor, "S B rows d"]) -> TaskDirections:
        return as_directions(W[:, :, 1:].mean(2) - W[:, :, 0])


@final
@dataclass(frozen=True)
class AverageGradients(TrajectoryMethod):
    """Chen et al. 2022, section 5.1: along the mean of the inner steps.

    A baseline for the main direction; with plain gradient descent it is Reptile with a smaller step.
    """

    unit: bool = False
    """Average the unit vectors of the steps instead, and rescale the result to Reptile's length."""

    def direction_of(self, W: Float[Tensor, "S B rows d"]) -> TaskDirections:
        steps = W.diff(dim=2)
        if not self.unit:
            return as_directions(steps.mean(2))
        length = (W[:, :, -1] - W[:, :, 0]).norm(dim=-1, keepdim=True)
        return as_directions(length * normalize(normalize(steps, dim=-1).mean(2), dim=-1))
