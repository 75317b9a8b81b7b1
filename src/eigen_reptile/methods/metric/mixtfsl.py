"""MixtFSL: a mixture of learnt components for each training class."""

import math
from dataclasses import dataclass, replace
from typing import final

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor
from torch.nn.functional import normalize

from eigen_reptile.errors import ConfigError
from eigen_reptile.methods.gradient.gradient_method import META_LOSS, MetaLosses
from eigen_reptile.methods.method import MetaBatch, Requirements, TaskSpec
from eigen_reptile.methods.metric.metric_method import (
    METRIC,
    MetricMethod,
    class_means,
    embed,
    embed_all,
    initial_vectors,
    support_one_hot,
)
from eigen_reptile.nn.network import Network
from eigen_reptile.tasks import Tasks


@final
@dataclass(frozen=True)
class MixtFsl(MetricMethod):
    """Afrasiyabi, Lalonde and Gagné 2021, https://arxiv.org/abs/2011.11872: several learnt components for each class.

    Samples are pulled, in angle and with a margin, to the nearest component of their class and to the mean of its
    components. The classes of a new task are the means of their support. This is the first of the two published
    training phases; the second needs the network that did best on validation tasks, to which a method has no access
    here. Image augmentation is left out too, and so is the classifier that is fitted to a new support where validation
    prefers it. Use it with batches of the whole training set (`task.epochs`).
    """

    components: int = 15
    """Components of each class."""
    temperature: float = 0.025
    """Temperature of the softmax over cosines."""
    margin: float = 0.01
    """Angle, in radians, added between a sample and its own component or class."""

    def __post_init__(self) -> None:
        if self.components < 1:
            raise ConfigError(f"`method.components` must be at least 1, not {self.components}")
        if not 0 < self.temperature < math.inf:
            raise ConfigError(f"`method.temperature` must be finite and above 0, not {self.temperature}")
        if not 0 <= self.margin < math.pi / 2:
            raise ConfigError(f"`method.margin` must be at least 0 and below a right angle, not {self.margin}")

    @property
    def requirements(self) -> Requirements:
        return replace(METRIC, supports_epochs=True, extra_parameters=self._initial_components)

    def _initial_components(self, network: Network, seed: int, spec: TaskSpec) -> Float[Tensor, "E"]:
        """The components, class after class."""
        return initial_vectors(seed, spec.classes * self.components, network.module.features(spec.shape))

    def meta_losses(self, batch: MetaBatch) -> MetaLosses:
        network, tasks, start = batch.network, batch.tasks, batch.adaptation
        features, y = embed_all(network, start.theta, tasks)
        y = tasks.classes.gather(2, y)
        components = start.extra.unflatten(-1, (-1, features.shape[-1]))
        features, components = normalize(features, dim=-1), normalize(components, dim=-1)
        # Components should not be pulled together, so their mean is a constant.
        centroids = components.unflatten(2, (-1, self.components)).mean(3).detach()
        class_scores = self.scores(features @ centroids.mT, y)
        cosines = features @ components.mT
        nearest = self.nearest(cosines, y)
        present = torch.zeros_like(cosines[:, :, 0], dtype=torch.bool).scatter(2, nearest, True)
        component_scores = self.scores(cosines, nearest).masked_fill(~present[:, :, None], -math.inf)
        losses = network.sample_loss(class_scores, y) + network.sample_loss(component_scores, nearest)
        return MetaLosses({META_LOSS: losses.mean(-1)})

    def nearest(self, cosines: Float[Tensor, "S B b n"], y: Int[Tensor, "S B b"]) -> Int[Tensor, "S B b"]:
        """The nearest component of its own class for each sample, as an index among the components of all classes."""
        of_class = cosines.detach().unflatten(-1, (-1, self.components))
        own = of_class.gather(3, y[..., None, None].expand(*y.shape, 1, self.components))[..., 0, :]
        chosen: Tensor = y * self.components + own.argmax(-1)
        return chosen

    def scores(self, cosines: Float[Tensor, "S B b n"], y: Int[Tensor, "S B b"]) -> Float[Tensor, "S B b n"]:
        """Logits: cosines over the temperature, with the margin added to the angle to the own class if it is acute."""
        # The clamp keeps the derivative of the square root finite where a sample coincides with its component.
        sines = (1 - cosines.square()).clamp(min=torch.finfo(cosines.dtype).eps).sqrt()
        with_margin = cosines * math.cos(self.margin) - sines * math.sin(self.margin)
        own = y[..., None] == torch.arange(cosines.shape[-1], device=y.device)
        return torch.where(own & (cosines > 0), with_margin, cosines) / self.temperature

    def predict(
        self, network: Network, theta: Float[Tensor, "S B D"], tasks: Tasks, x: Shaped[Tensor, "S B q *shape"]
    ) -> Shaped[Tensor, "S B q *out"]:
        support, queries = embed(network, theta, tasks, x)
        means = class_means(support, support_one_hot(tasks, support))
        return normalize(queries, dim=-1) @ normalize(means, dim=-1).mT
