"""Methods that minimise a meta-loss by gradient descent."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from eigen_reptile.methods.method import MetaBatch, MetaUpdate, Method, WeightRule, average_over_tasks, unweighted
from eigen_reptile.nn.network import Network
from eigen_reptile.tasks import Tasks

META_LOSS = "meta_loss"
"""Name of the term that every meta-loss has."""


class MetaLosses(NamedTuple):
    """The terms of the meta-loss of each task, differentiable in theta."""

    terms: dict[str, Float[Tensor, "S B"]]
    weights: WeightRule = unweighted
    """The weights of the terms, which may depend on their means over all tasks."""


@dataclass(frozen=True)
class GradientMethod(Method):
    """A method whose update is the negative gradient of a meta-loss, averaged over the tasks."""

    @abstractmethod
    def meta_losses(self, batch: MetaBatch) -> MetaLosses:
        """The meta-loss of each task."""

    def meta_update(self, batch: MetaBatch) -> MetaUpdate:
        """The gradient of each term, for a part of the tasks at a time, so that only their graph is in memory."""
        network = batch.network.in_training()

        def summed(part: MetaBatch) -> MetaUpdate:
            with torch.enable_grad():
                theta = part.theta.detach().requires_grad_()
                losses, weights = self.meta_losses(part._replace(theta=theta, network=network))
                terms = {
                    name: -torch.autograd.grad(loss.sum(), theta, retain_graph=True, materialize_grads=True)[0]
                    for name, loss in losses.items()
                }
            means = {name: loss.detach().sum(1) for name, loss in losses.items()}
            return MetaUpdate(terms, means, part.adaptation.inner_state.summed_over_tasks(), weights)

        return average_over_tasks(batch, summed)


def query_loss(method: Method, network: Network, theta: Float[Tensor, "S B D"], tasks: Tasks) -> Float[Tensor, "S B"]:
    """The mean loss of adapted parameters on the queries of each task."""
    return network.sample_loss(method.predict(network, theta, tasks, tasks.query_x), tasks.query_y).mean(-1)


def query_loss_after_adaptation(method: Method, batch: MetaBatch) -> MetaLosses:
    """The usual meta-loss: adapt to the support of each task, then predict its queries."""
    theta, _ = method.adapt(batch.adaptation)
    return MetaLosses({META_LOSS: query_loss(method, batch.network, theta, batch.tasks)})
