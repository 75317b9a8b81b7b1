"""Few-shot learning with graph networks (Garcia and Bruna 2018): labels spread over a graph of samples."""

from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import final

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from eigen_reptile.learner import Learner, class_error
from eigen_reptile.methods.method import Domain, Suggestion
from eigen_reptile.methods.metric import MetricMethod, members, placed
from eigen_reptile.models import Conv4
from eigen_reptile.streams import stream
from eigen_reptile.tasks import Tasks


@final
@dataclass(frozen=True)
class Gnn(MetricMethod):
    """Each query is a node of a graph of its own, in which the labelled support are the others.

    As in the authors' code, a query's label is all zeros at first. What differs: the pictures' network is the
    experiment's; a task asks about many queries, each in its graph, where theirs has one; no dropout, no weight decay,
    and the rate is not halved. In the map and in graphs, batch-norm uses the statistics of a task's samples, at all
    times, and the layers before it have no bias, which it would take out again.
    """

    width: int = 128
    """Numbers to which what the network says of a picture is mapped, before it becomes a node."""
    edge: int = 96
    """Width of the network that compares two nodes; its first two layers have twice as much."""
    grown: int = 48
    """Numbers that each layer adds to a node."""
    layers: int = 2
    """Layers, without the last, which says the classes."""

    def __post_init__(self) -> None:
        for name, least in {"width": 1, "edge": 1, "grown": 1, "layers": 0}.items():
            if getattr(self, name) < least:
                raise ValueError(f"{name} must be at least {least}, not {getattr(self, name)}")

    @property
    def any_way(self) -> bool:
        return False  # its nodes have a number for each class

    @property
    def suggests(self) -> Suggestion | None:
        return Suggestion(model=Conv4(64, "valid", head=False), iterations=80_000)

    def extra(self, learner: Learner, seed: int, domain: Domain) -> Float[Tensor, "E"]:
        """The parameters of the map, then those of the graph network."""
        rng = stream(seed, "init", 1)
        parts = networks(self, learner.features(domain.shape), domain.way)
        return torch.cat([part.init(int(rng.integers(2**63))) for part in parts])

    def answers(
        self, learner: Learner, theta: Float[Tensor, "S B D"], tasks: Tasks, x: Shaped[Tensor, "S B q *shape"]
    ) -> Shaped[Tensor, "S B q *out"]:
        support, asked = placed(learner, theta, tasks, x)
        known = members(tasks, support)
        mapping, graph = networks(self, support.shape[-1], known.shape[-1])
        extra = theta[..., learner.d :]
        mapped = mapping.outputs(extra[..., : mapping.d], torch.cat([support, asked], dim=2))
        labels = torch.cat([known, known.new_zeros(*asked.shape[:3], known.shape[-1])], dim=2)
        samples = torch.cat([mapped, labels], dim=-1)
        support, asked = samples.split([support.shape[2], asked.shape[2]], dim=2)
        others = support[:, :, None].expand(-1, -1, asked.shape[2], -1, -1)
        return graph.outputs(extra[..., mapping.d :], torch.cat([asked[:, :, :, None], others], dim=3))


@cache
def networks(method: Gnn, features: int, way: int) -> tuple[Learner, Learner]:
    """What maps samples, and what answers from their graphs, each as a function of its flat parameters."""

    def mapping() -> nn.Module:
        return nn.Sequential(nn.Linear(features, method.width, bias=False), nn.BatchNorm1d(method.width))

    return Learner(mapping, class_error), Learner(lambda: _Graph(method, way), class_error)


@final
class _Graph(nn.Module):
    """From the nodes of each graph, its query first, to what is said of the query."""

    def __init__(self, method: Gnn, way: int) -> None:
        super().__init__()
        sizes = [method.width + way + method.grown * layer for layer in range(method.layers + 1)]
        self.edges = nn.ModuleList(_Edges(size, method.edge) for size in sizes)
        self.nodes = nn.ModuleList(_dense(2 * size, method.grown) for size in sizes[:-1])
        self.last = nn.Linear(2 * sizes[-1], way)

    def forward(self, x: Float[Tensor, "q n F"]) -> Float[Tensor, "q way"]:
        for edges, node in zip(self.edges, self.nodes, strict=False):  # the last edges have no such layer
            new: Tensor = node(_gathered(x, edges(x)).flatten(0, 1))
            x = torch.cat([x, new.unflatten(0, x.shape[:2])], dim=2)
        said: Tensor = self.last(_gathered(x, self.edges[-1](x))[:, 0])
        return said


@final
class _Edges(nn.Module):
    """How much each node takes from each other, out of how they differ: each row sums to one."""

    def __init__(self, size: int, width: int) -> None:
        super().__init__()
        layers = [_dense(*pair) for pair in pairwise((size, 2 * width, 2 * width, width, width))]
        self.score = nn.Sequential(*layers, nn.Linear(width, 1, bias=False))  # a bias would cancel in the softmax

    def forward(self, x: Float[Tensor, "q n F"]) -> Float[Tensor, "q n n"]:
        q, n, _ = x.shape
        differences = (x[:, :, None] - x[:, None]).abs()
        scores: Tensor = self.score(differences.flatten(0, 2)).view(q, n, n)
        itself = torch.eye(n, dtype=torch.bool, device=x.device)
        return scores.masked_fill(itself, -torch.inf).softmax(-1)


def _dense(before: int, after: int) -> nn.Module:
    return nn.Sequential(nn.Linear(before, after, bias=False), nn.BatchNorm1d(after), nn.LeakyReLU())


def _gathered(x: Float[Tensor, "q n F"], adjacency: Float[Tensor, "q n n"]) -> Float[Tensor, "q n twice"]:
    """Each node with what it takes from the others."""
    return torch.cat([x, adjacency @ x], dim=2)
