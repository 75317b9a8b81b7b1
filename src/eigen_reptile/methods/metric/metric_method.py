"""Methods that compare queries with the support, in the space of the network's outputs."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor
from torch.nn.functional import one_hot

from eigen_reptile.inner import InnerState
from eigen_reptile.methods.gradient.gradient_method import GradientMethod
from eigen_reptile.methods.method import Adaptation, Requirements
from eigen_reptile.nn.network import Network
from eigen_reptile.runtime.rng import generator_at
from eigen_reptile.tasks import Tasks

METRIC = Requirements(
    queries=True, classification_only=True, inner_loop=False, support_in_batch=True, flexible_way=True
)
"""The usual requirements of a metric method."""


@dataclass(frozen=True)
class MetricMethod(GradientMethod):
    """A method that predicts by comparing queries with the support; no parameters are adapted."""

    def adapt(self, adaptation: Adaptation) -> tuple[Float[Tensor, "S B D"], InnerState]:
        return adaptation.theta, adaptation.inner_state


def embed(
    network: Network, theta: Float[Tensor, "S B D"], tasks: Tasks, x: Shaped[Tensor, "S B q *shape"]
) -> tuple[Float[Tensor, "S B m F"], Float[Tensor, "S B q F"]]:
    """Features of the support of each task, and of other samples, computed in one batch."""
    features = network.outputs(theta[..., : network.d], torch.cat([tasks.x, x], dim=2))
    support, queries = features.split([tasks.x.shape[2], x.shape[2]], dim=2)
    return support, queries


def embed_all(
    network: Network, theta: Float[Tensor, "S B D"], tasks: Tasks
) -> tuple[Float[Tensor, "S B b F"], Int[Tensor, "S B b"]]:
    """Features and labels of all samples of each task, support and queries together."""
    features = torch.cat(embed(network, theta, tasks, tasks.query_x), dim=2)
    return features, torch.cat([tasks.y, tasks.query_y], dim=2)


def support_one_hot(tasks: Tasks, like: Tensor) -> Float[Tensor, "S B m way"]:
    """The support labels, one-hot, in the type of another tensor."""
    return one_hot(tasks.y, tasks.classes.shape[2]).to(like)


def class_means(features: Float[Tensor, "S B m F"], labels: Float[Tensor, "S B m way"]) -> Float[Tensor, "S B way F"]:
    """The mean of each class; the origin for a class that wrong labels have left empty."""
    return labels.mT @ features / labels.sum(2)[..., None].clamp(min=1)


def squared_distances(
    features: Float[Tensor, "S B b F"], centres: Float[Tensor, "S B n F"]
) -> Float[Tensor, "S B b n"]:
    return (features[:, :, :, None] - centres[:, :, None]).square().sum(-1)


def initial_vectors(seed: int, count: int, size: int) -> Float[Tensor, "E"]:
    """Vectors drawn like the weights of a linear layer in torch."""
    bound = size**-0.5
    return torch.from_numpy(generator_at(seed, "init", 1).uniform(-bound, bound, count * size))
