"""MixtFSL (Afrasiyabi, Lalonde, Gagné 2021): a mixture of learnt components for each class of the training set."""

import math
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor
from torch.nn.functional import normalize

from eigen_reptile.learner import Learner
from eigen_reptile.methods.method import Domain, Iteration, Suggestion
from eigen_reptile.methods.metric import MetricMethod, class_means, members, placed, vectors, whole_set
from eigen_reptile.models import Conv4
from eigen_reptile.tasks import Tasks


@final
@dataclass(frozen=True)
class MixtFsl(MetricMethod):
    """Samples are drawn to the nearest component of their class, and to the mean of its components.

    All in angles, and with a margin. A new task's classes are the means of their support. This is the first of the
    published training's two phases. The second is left out: it follows the network that has done best on validation
    tasks so far, which a method is not told here. Left out are also the augmentation of pictures, and the classifier
    that is fitted to a new task's support where validation finds it better than the means.
    """

    components: int = 15
    """Components of each class."""
    temperature: float = 0.025
    """What cosines are divided by before the softmax."""
    margin: float = 0.01
    """The angle, in radians, that is added to the one between a sample and where it belongs."""

    def __post_init__(self) -> None:
        if self.components < 1:
            raise ValueError(f"components must be at least 1, not {self.components}")
        if not 0 < self.temperature < math.inf:
            raise ValueError(f"temperature must be finite and above 0, not {self.temperature}")
        if not 0 <= self.margin < math.pi / 2:
            raise ValueError(f"margin must be at least 0 and below a right angle, not {self.margin}")

    @property
    def takes_whole_set(self) -> bool:
        return True

    @property
    def suggests(self) -> Suggestion | None:
        """Two batches of 100 pictures, in passes over the training set, 600 of which are 115,200 batches of 200."""
        things = Suggestion(tasks=2, queries=19, epochs=True, model=Conv4(64, "valid", head=False), iterations=115_200)
        return things._replace(characters=things._replace(outer_lr=3 * things.outer_lr))

    def extra(self, learner: Learner, seed: int, domain: Domain) -> Float[Tensor, "E"]:
        """The components, class after class."""
        return vectors(seed, domain.classes * self.components, learner.features(domain.shape))

    def losses(self, iteration: Iteration) -> Float[Tensor, "S B"]:
        learner, tasks = iteration.learner, iteration.tasks
        points, y = whole_set(learner, iteration.point, tasks)
        y = tasks.classes.gather(2, y)
        components = iteration.point[..., learner.d :].unflatten(-1, (-1, points.shape[-1]))
        points, components = normalize(points, dim=-1), normalize(components, dim=-1)
        # The components are not to be drawn together, so that their mean counts as a constant.
        centroids = components.unflatten(2, (-1, self.components)).mean(3).detach()
        classes = self.scores(points @ centroids.mT, y)
        cosines = points @ components.mT
        nearest = self.nearest(cosines, y)
        present = torch.zeros_like(cosines[:, :, 0], dtype=torch.bool).scatter(2, nearest, True)
        parts = self.scores(cosines, nearest).masked_fill(~present[:, :, None], -math.inf)
        return (learner.sample_loss(classes, y) + learner.sample_loss(parts, nearest)).mean(-1)

    def nearest(self, cosines: Float[Tensor, "S B b n"], y: Int[Tensor, "S B b"]) -> Int[Tensor, "S B b"]:
        """Which component of its own class each sample is nearest to, by its number among those of all classes."""
        of_class = cosines.detach().unflatten(-1, (-1, self.components))
        own = of_class.gather(3, y[..., None, None].expand(*y.shape, 1, self.components))[..., 0, :]
        chosen: Tensor = y * self.components + own.argmax(-1)
        return chosen

    def scores(self, cosines: Float[Tensor, "S B b n"], y: Int[Tensor, "S B b"]) -> Float[Tensor, "S B b n"]:
        """What the softmax is taken of: the cosines, with the margin where a sample belongs and is not far off."""
        # The clamp keeps the derivative of the root finite where a sample lies on its component.
        sines = (1 - cosines.square()).clamp(min=torch.finfo(cosines.dtype).eps).sqrt()
        beyond = cosines * math.cos(self.margin) - sines * math.sin(self.margin)
        own = y[..., None] == torch.arange(cosines.shape[-1], device=y.device)
        return torch.where(own & (cosines > 0), beyond, cosines) / self.temperature

    def answers(
        self, learner: Learner, theta: Float[Tensor, "S B D"], tasks: Tasks, x: Shaped[Tensor, "S B q *shape"]
    ) -> Shaped[Tensor, "S B q *out"]:
        support, asked = placed(learner, theta, tasks, x)
        means = class_means(support, members(tasks, support))
        return normalize(asked, dim=-1) @ normalize(means, dim=-1).mT
