"""Prototypical networks: the class with the nearest mean."""

from dataclasses import dataclass
from typing import final

from jaxtyping import Float, Shaped
from torch import Tensor

from eigen_reptile.methods.gradient.gradient_method import MetaLosses, query_loss_after_adaptation
from eigen_reptile.methods.method import MetaBatch, Requirements
from eigen_reptile.methods.metric.metric_method import (
    METRIC,
    MetricMethod,
    class_means,
    embed,
    squared_distances,
    support_one_hot,
)
from eigen_reptile.nn.network import Network
from eigen_reptile.tasks import Tasks


@final
@dataclass(frozen=True)
class Prototypical(MetricMethod):
    """Snell, Swersky and Zemel 2017, https://arxiv.org/abs/1703.05175: the class whose support has the nearest mean.

    No inner loop, so it is fast in training and prediction. Use it first when tasks have query samples.
    """

    @property
    def requirements(self) -> Requirements:
        return METRIC

    def meta_losses(self, batch: MetaBatch) -> MetaLosses:
        return query_loss_after_adaptation(self, batch)

    def predict(
        self, network: Network, theta: Float[Tensor, "S B D"], tasks: Tasks, x: Shaped[Tensor, "S B q *shape"]
    ) -> Shaped[Tensor, "S B q *out"]:
        support, queries = embed(network, theta, tasks, x)
        return -squared_distances(queries, class_means(support, support_one_hot(tasks, support)))
