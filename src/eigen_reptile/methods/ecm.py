"""ECM, or shot-free learning (Ravichandran, Bhotika, Soatto 2019): a learnt vector for each class, as we read it."""

import math
from dataclasses import dataclass
from typing import Literal, final

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from eigen_reptile.learner import Learner
from eigen_reptile.methods.method import Domain, Iteration
from eigen_reptile.methods.metric import (
    MetricMethod,
    class_means,
    members,
    placed,
    squared_distances,
    vectors,
    whole_set,
)
from eigen_reptile.tasks import Tasks, take_samples


@final
@dataclass(frozen=True)
class Ecm(MetricMethod):
    """Each class of the training set owns a vector, learnt with the network; new classes have theirs fitted.

    The nearer a sample is to a class's vector, the likelier it is of that class. This is our reading: no code of the
    authors was found. Left out are their linear map into a larger space, Nesterov's momentum and weight decay.
    """

    among: Literal["task", "bank"] = "task"
    """Which classes a training sample is told apart from: those of its task, or all of the training set."""
    steps: int = 5
    """Gradient steps by which the vectors of a new task are fitted to its support, from the means of its classes."""
    rate: float = 0.5
    """Their rate, on the mean loss."""

    def __post_init__(self) -> None:
        if self.steps < 0:
            raise ValueError(f"steps must be at least 0, not {self.steps}")
        if not 0 < self.rate < math.inf:
            raise ValueError(f"rate must be finite and above 0, not {self.rate}")

    @property
    def takes_whole_set(self) -> bool:
        return True

    def extra(self, learner: Learner, seed: int, domain: Domain) -> Float[Tensor, "E"]:
        """The vectors of the training classes."""
        return vectors(seed, domain.classes, learner.features(domain.shape))

    def losses(self, iteration: Iteration) -> Float[Tensor, "S B"]:
        learner, tasks = iteration.learner, iteration.tasks
        points, y = whole_set(learner, iteration.point, tasks)
        centres = iteration.point[..., learner.d :].unflatten(-1, (-1, points.shape[-1]))
        if self.among == "task":
            centres = take_samples(centres, tasks.classes)
        else:
            y = tasks.classes.gather(2, y)
        return learner.sample_loss(-squared_distances(points, centres), y).mean(-1)

    def answers(
        self, learner: Learner, theta: Float[Tensor, "S B D"], tasks: Tasks, x: Shaped[Tensor, "S B q *shape"]
    ) -> Shaped[Tensor, "S B q *out"]:
        support, asked = placed(learner, theta, tasks, x)
        centres = class_means(support, members(tasks, support)).requires_grad_()
        for _ in range(self.steps):
            with torch.enable_grad():  # in evaluation too, where else nothing is recorded
                loss = learner.sample_loss(-squared_distances(support, centres), tasks.y).mean(-1).sum()
            (slope,) = torch.autograd.grad(loss, centres, create_graph=torch.is_grad_enabled())
            centres = (centres - self.rate * slope).requires_grad_()
        return -squared_distances(asked, centres)
