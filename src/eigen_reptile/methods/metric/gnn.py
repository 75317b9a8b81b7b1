"""Graph networks for few-shot learning: labels propagate over a graph of samples."""

from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from typing import final

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from eigen_reptile.errors import ConfigError
from eigen_reptile.methods.gradient.gradient_method import MetaLosses, query_loss_after_adaptation
from eigen_reptile.methods.method import MetaBatch, Requirements, TaskSpec
from eigen_reptile.methods.metric.metric_method import METRIC, MetricMethod, embed, support_one_hot
from eigen_reptile.nn.flat_module import FlatModule
from eigen_reptile.nn.losses import CrossEntropy
from eigen_reptile.nn.network import Network
from eigen_reptile.runtime.rng import generator_at
from eigen_reptile.tasks import Tasks


@final
@dataclass(frozen=True)
class Gnn(MetricMethod):
    """Garcia and Bruna 2018, https://arxiv.org/abs/1711.04043: classify each query in a graph with the support.

    As in the authors' code, the label of a query is all zeros at first. Differences: the image network is the
    experiment's; a task has many queries, each in a graph of its own, where the authors' tasks have one; there is no
    dropout and no weight decay, and the learning rate is not halved. In the map and in the graphs, batch-norm always
    uses the statistics of a task's samples, and the layers before it have no bias, which it would cancel. Use it when
    training can be long: it stays at chance until it has learnt what labels mean.
    """

    width: int = 128
    """Features of a node, to which the network's outputs are mapped."""
    edge: int = 96
    """Width of the network that compares two nodes; its first two layers are twice as wide."""
    grown: int = 48
    """Features that each layer adds to a node."""
    layers: int = 2
    """Graph layers before the last one, which predicts the class."""

    def __post_init__(self) -> None:
        for name, least in {"width": 1, "edge": 1, "grown": 1, "layers": 0}.items():
            if getattr(self, name) < least:
                raise ConfigError(f"`method.{name}` must be at least {least}, not {getattr(self, name)}")

    @property
    def requirements(self) -> Requirements:
        # The nodes have a feature for each class, so that the number of classes is fixed.
        return replace(METRIC, flexible_way=False, extra_parameters=self._initial_graph)

    def _initial_graph(self, network: Network, seed: int, spec: TaskSpec) -> Float[Tensor, "E"]:
        """The parameters of the map, then those of the graph network."""
        rng = generator_at(seed, "init", 1)
        parts = graph_networks(self, network.module.features(spec.shape), spec.way)
        return torch.cat([part.module.init(int(rng.integers(2**63))) for part in parts])

    def meta_losses(self, batch: MetaBatch) -> MetaLosses:
        return query_loss_after_adaptation(self, batch)

    def predict(
        self, network: Network, theta: Float[Tensor, "S B D"], tasks: Tasks, x: Shaped[Tensor, "S B q *shape"]
    ) -> Shaped[Tensor, "S B q *out"]:
        support, queries = embed(network, theta, tasks, x)
        known = support_one_hot(tasks, support)
        mapping, graph = graph_networks(self, support.shape[-1], known.shape[-1])
        extra = theta[..., network.d :]
        mapped = mapping.outputs(extra[..., : mapping.d], torch.cat([support, queries], dim=2))
        labels = torch.cat([known, known.new_zeros(*queries.shape[:3], known.shape[-1])], dim=2)
        nodes = torch.cat([mapped, labels], dim=-1)
        support, queries = nodes.split([support.shape[2], queries.shape[2]], dim=2)
        others = support[:, :, None].expand(-1, -1, queries.shape[2], -1, -1)
        return graph.outputs(extra[..., mapping.d :], torch.cat([queries[:, :, :, None], others], dim=3))


@cache
def graph_networks(method: Gnn, features: int, way: int) -> tuple[Network, Network]:
    """The map from features to nodes, and the network on graphs, each as a function of its flat parameters."""

    def mapping() -> nn.Module:
        return nn.Sequential(nn.Linear(features, method.width, bias=False), nn.BatchNorm1d(method.width))

    modules = FlatModule(mapping), FlatModule(lambda: _GraphNetwork(method, way))
    return Network(modules[0], CrossEntropy()), Network(modules[1], CrossEntropy())


@final
class _GraphNetwork(nn.Module):
    """From the nodes of each graph, its query first, to the logits of the query."""

    def __init__(self, method: Gnn, way: int) -> None:
        super().__init__()
        sizes = [method.width + way + method.grown * layer for layer in range(method.layers + 1)]
        self.edges = nn.ModuleList(_EdgeWeights(size, method.edge) for size in sizes)
        self.nodes = nn.ModuleList(_linear_norm_relu(2 * size, method.grown) for size in sizes[:-1])
        self.last = nn.Linear(2 * sizes[-1], way)

    def forward(self, x: Float[Tensor, "q n F"]) -> Float[Tensor, "q way"]:
        for edges, node in zip(self.edges, self.nodes, strict=False):  # the last edges have no node layer
            new: Tensor = node(_with_neighbours(x, edges(x)).flatten(0, 1))
            x = torch.cat([x, new.unflatten(0, x.shape[:2])], dim=2)
        logits: Tensor = self.last(_with_neighbours(x, self.edges[-1](x))[:, 0])
        return logits


@final
class _EdgeWeights(nn.Module):
    """Edge weights from the differences between nodes; each row sums to one."""

    def __init__(self, size: int, width: int) -> None:
        super().__init__()
        layers = [_linear_norm_relu(*pair) for pair in pairwise((size, 2 * width, 2 * width, width, width))]
        self.score = nn.Sequential(*layers, nn.Linear(width, 1, bias=False))  # a bias would cancel in the softmax

    def forward(self, x: Float[Tensor, "q n F"]) -> Float[Tensor, "q n n"]:
        q, n, _ = x.shape
        differences = (x[:, :, None] - x[:, None]).abs()
        scores: Tensor = self.score(differences.flatten(0, 2)).view(q, n, n)
        itself = torch.eye(n, dtype=torch.bool, device=x.device)
        return scores.masked_fill(itself, -torch.inf).softmax(-1)


def _linear_norm_relu(before: int, after: int) -> nn.Module:
    return nn.Sequential(nn.Linear(before, after, bias=False), nn.BatchNorm1d(after), nn.LeakyReLU())


def _with_neighbours(x: Float[Tensor, "q n F"], adjacency: Float[Tensor, "q n n"]) -> Float[Tensor, "q n twice"]:
    """Each node, concatenated with the weighted mean of the others."""
    return torch.cat([x, adjacency @ x], dim=2)
