"""ECM, or shot-free learning: a learnt vector for each class."""

import math
from dataclasses import dataclass, replace
from typing import Literal, final

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

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
    squared_distances,
    support_one_hot,
)
from eigen_reptile.nn.network import Network
from eigen_reptile.tasks import Tasks, take_samples


@final
@dataclass(frozen=True)
class Ecm(MetricMethod):
    """Ravichandran, Bhotika and Soatto 2019, https://arxiv.org/abs/1905.04398: a learnt vector for each training class.

    The probability of a class falls with the distance to its vector; the vectors of a new task's classes are fitted to
    its support. This is our reading of the publication, without its linear map into a larger space, Nesterov's momentum
    and weight decay. Use it to learn from tasks or from the whole training set (`task.epochs`).
    """

    among: Literal["task", "bank"] = "task"
    """Classes among which a training sample is classified: those of its task, or all training classes."""
    steps: int = 5
    """Gradient steps that fit the vectors of a new task to its support, starting from the means of its classes."""
    rate: float = 0.5
    """Their learning rate, for the mean loss."""

    def __post_init__(self) -> None:
        if self.steps < 0:
            raise ConfigError(f"`method.steps` must be at least 0, not {self.steps}")
        if not 0 < self.rate < math.inf:
            raise ConfigError(f"`method.rate` must be finite and above 0, not {self.rate}")

    @property
    def requirements(self) -> Requirements:
        return replace(METRIC, supports_epochs=True, extra_parameters=self._initial_class_vectors)

    def _initial_class_vectors(self, network: Network, seed: int, spec: TaskSpec) -> Float[Tensor, "E"]:
        return initial_vectors(seed, spec.classes, network.module.features(spec.shape))

    def meta_losses(self, batch: MetaBatch) -> MetaLosses:
        network, tasks, start = batch.network, batch.tasks, batch.adaptation
        features, y = embed_all(network, start.theta, tasks)
        vectors = start.extra.unflatten(-1, (-1, features.shape[-1]))
        if self.among == "task":
            vectors = take_samples(vectors, tasks.classes)
        else:
            y = tasks.classes.gather(2, y)
        return MetaLosses({META_LOSS: network.sample_loss(-squared_distances(features, vectors), y).mean(-1)})

    def predict(
        self, network: Network, theta: Float[Tensor, "S B D"], tasks: Tasks, x: Shaped[Tensor, "S B q *shape"]
    ) -> Shaped[Tensor, "S B q *out"]:
        support, queries = embed(network, theta, tasks, x)
        vectors = class_means(support, support_one_hot(tasks, support)).requires_grad_()
        for _ in range(self.steps):
            with torch.enable_grad():  # also in evaluation, where autograd is off
                loss = network.sample_loss(-squared_distances(support, vectors), tasks.y).mean(-1).sum()
            (gradient,) = torch.autograd.grad(loss, vectors, create_graph=torch.is_grad_enabled())
            vectors = (vectors - self.rate * gradient).requires_grad_()
        return -squared_distances(queries, vectors)
