"""The directions that the paper compares the main direction with (section 5.1, figure 4)."""

from dataclasses import dataclass
from typing import final

from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import normalize

from eigen_reptile.methods.method import Moves, TrajectoryMethod, along


@final
@dataclass(frozen=True)
class AverageWeights(TrajectoryMethod):
    """Towards the mean of the points after each inner step."""

    def moves(self, W: Float[Tensor, "S B rows d"]) -> Moves:
        moved = W[:, :, 1:].mean(2) - W[:, :, 0]
        return along(moved)


@final
@dataclass(frozen=True)
class AverageGradients(TrajectoryMethod):
    """Along the mean of the inner steps."""

    unit: bool = False
    """Average the steps' unit vectors instead, and rescale the result to Reptile's length."""

    def moves(self, W: Float[Tensor, "S B rows d"]) -> Moves:
        steps = W.diff(dim=2)
        if self.unit:
            reptile = (W[:, :, -1] - W[:, :, 0]).norm(dim=-1, keepdim=True)
            moved = reptile * normalize(normalize(steps, dim=-1).mean(2), dim=-1)
        else:
            moved = steps.mean(2)
        return along(moved)
