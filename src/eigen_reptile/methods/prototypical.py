"""Prototypical networks (Snell, Swersky, Zemel 2017): the nearest mean of a class, in a learnt space."""

from dataclasses import dataclass
from typing import final

from jaxtyping import Float, Shaped
from torch import Tensor

from eigen_reptile.learner import Learner
from eigen_reptile.methods.metric import MetricMethod, class_means, members, placed, squared_distances
from eigen_reptile.tasks import Tasks


@final
@dataclass(frozen=True)
class Prototypical(MetricMethod):
    """The class whose support has the nearest mean in the space of the network's outputs."""

    def answers(
        self, learner: Learner, theta: Float[Tensor, "S B D"], tasks: Tasks, x: Shaped[Tensor, "S B q *shape"]
    ) -> Shaped[Tensor, "S B q *out"]:
        support, asked = placed(learner, theta, tasks, x)
        return -squared_distances(asked, class_means(support, members(tasks, support)))
