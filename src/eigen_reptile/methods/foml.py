"""FOML, as the authors of Reptile wrote it: along the last step of the inner loop."""

from dataclasses import dataclass
from typing import final

from jaxtyping import Float
from torch import Tensor

from eigen_reptile.methods.method import Moves, TrajectoryMethod, along


@final
@dataclass(frozen=True)
class Foml(TrajectoryMethod):
    """Along the last step of the inner loop, averaged over the tasks: first-order MAML with the inner optimiser."""

    def moves(self, W: Float[Tensor, "S B rows d"]) -> Moves:
        return along(W[:, :, -1] - W[:, :, -2])
