"""Methods that compare queries with the support, in the space of the network's outputs."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor
from torch.nn.functional import one_hot

from eigen_reptile.inner import InnerState
from eigen_reptile.learner import Learner
from eigen_reptile.methods.gradient import GradientMethod
from eigen_reptile.methods.method import Adaptation, Iteration, Suggestion
from eigen_reptile.models import Conv4
from eigen_reptile.streams import stream
from eigen_reptile.tasks import Tasks


@dataclass(frozen=True)
class MetricMethod(GradientMethod):
    """A method whose answers come from comparing queries with the support: nothing is adapted."""

    @property
    def classifies(self) -> bool:
        return True

    @property
    def has_inner_loop(self) -> bool:
        return False

    @property
    def sees_support(self) -> bool:
        return True

    @property
    def any_way(self) -> bool:
        return True

    @property
    def suggests(self) -> Suggestion | None:
        return Suggestion(model=Conv4(64, "valid", head=False))

    def losses(self, iteration: Iteration) -> Float[Tensor, "S B"]:
        tasks, learner = iteration.tasks, iteration.learner
        said = self.answers(learner, iteration.point, tasks, tasks.query_x)
        return learner.sample_loss(said, tasks.query_y).mean(-1)

    def adapted(self, adaptation: Adaptation) -> tuple[Float[Tensor, "S B D"], InnerState]:
        return adaptation.point, adaptation.memory


def placed(
    learner: Learner, theta: Float[Tensor, "S B D"], tasks: Tasks, x: Shaped[Tensor, "S B q *shape"]
) -> tuple[Float[Tensor, "S B m F"], Float[Tensor, "S B q F"]]:
    """Where the network puts the support of each task, and other samples, all of one batch."""
    points = learner.outputs(theta[..., : learner.d], torch.cat([tasks.x, x], dim=2))
    support, asked = points.split([tasks.x.shape[2], x.shape[2]], dim=2)
    return support, asked


def members(tasks: Tasks, like: Tensor) -> Float[Tensor, "S B m way"]:
    """1 where a support sample is told to be of a class, and 0 elsewhere."""
    return one_hot(tasks.y, tasks.classes.shape[2]).to(like)


def class_means(points: Float[Tensor, "S B m F"], member: Float[Tensor, "S B m way"]) -> Float[Tensor, "S B way F"]:
    """The mean of each class; that of one that wrong labels have emptied is the origin."""
    return member.mT @ points / member.sum(2)[..., None].clamp(min=1)


def squared_distances(points: Float[Tensor, "S B b F"], centres: Float[Tensor, "S B n F"]) -> Float[Tensor, "S B b n"]:
    return (points[:, :, :, None] - centres[:, :, None]).square().sum(-1)


def whole_set(
    learner: Learner, theta: Float[Tensor, "S B D"], tasks: Tasks
) -> tuple[Float[Tensor, "S B b F"], Int[Tensor, "S B b"]]:
    """All samples of each task, and which classes of the task they are told to be of.

    With the classes' own numbers they are a batch out of the whole training set.
    """
    points = torch.cat(placed(learner, theta, tasks, tasks.query_x), dim=2)
    return points, torch.cat([tasks.y, tasks.query_y], dim=2)


def vectors(seed: int, count: int, size: int) -> Float[Tensor, "E"]:
    """So many vectors to begin with, drawn as torch draws the weights of a linear layer."""
    bound = size**-0.5
    return torch.from_numpy(stream(seed, "init", 1).uniform(-bound, bound, count * size))
