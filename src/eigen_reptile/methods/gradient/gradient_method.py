"""Methods that descend the gradient of a meta-loss."""

from abc import abstractmethod
from dataclasses import dataclass
from functools import reduce
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from eigen_reptile.inner import InnerState
from eigen_reptile.methods.method import MetaBatch, MetaUpdate, Method, WeightRule, unweighted

META_LOSS = "meta_loss"
"""The term that every meta-loss has."""


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
        """The gradient of each term, a part of the tasks at a time, so that only their graph is in memory."""
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
            state = part.adaptation.inner_state
            return MetaUpdate(terms, means, InnerState(*(part.sum(1) for part in state)), weights)

        bytes_each = (batch.inner.steps + 1) * batch.theta.nbytes
        return reduce(MetaUpdate.plus, batch.map_tasks(summed, bytes_each)).over(batch.tasks_per_replica)
