"""MeTAL (Baik et al. 2021): MAML whose inner loss is learnt, and adapts itself to the task."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from math import prod
from typing import final

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor
from torch.nn.functional import one_hot

from eigen_reptile.inner import Gradient, InnerState, adapt
from eigen_reptile.learner import Learner, weighted_mean
from eigen_reptile.methods.maml import Maml
from eigen_reptile.methods.method import Adaptation, Domain, Iteration, Suggestion
from eigen_reptile.models import Conv4
from eigen_reptile.streams import stream
from eigen_reptile.tasks import Tasks, each_step


@final
@dataclass(frozen=True)
class Metal(Maml):
    """MAML with an inner loss to which small learnt networks add what they make of the answers and the parameters.

    One network judges the support, another the queries, which have no labels there but are seen: adaptation is
    transductive, whatever the evaluation. Each has an adapter, which scales and shifts its parameters.
    """

    copies: int = 5
    """Loss networks and adapters, one of each for an inner step; further steps take the last."""

    def __post_init__(self) -> None:
        if self.copies < 1:
            raise ValueError(f"copies must be at least 1, not {self.copies}")
        if self.order != 2:
            raise ValueError("order must be 2: a loss is learnt only through its inner gradients")

    @property
    def classifies(self) -> bool:
        return True

    @property
    def sees_support(self) -> bool:
        return True

    @property
    def suggests(self) -> Suggestion | None:
        return Suggestion(steps=5, lr=0.01, after=5, tasks=2, model=Conv4(48, "valid"), iterations=50_000)

    def extra(self, learner: Learner, seed: int, domain: Domain) -> Float[Tensor, "E"]:
        """Weights as Xavier has them, and zeros: no bias, and adapters that change nothing."""
        rng = torch.Generator().manual_seed(int(stream(seed, "init", 1).integers(2**63)))
        parts = [torch.zeros(shape) for _ in range(self.copies) for shape in _shapes(learner)]
        for part in parts:
            if part.ndim == 2:
                torch.nn.init.xavier_uniform_(part, generator=rng)
        return torch.cat([part.flatten() for part in parts])

    def losses(self, iteration: Iteration) -> Float[Tensor, "S B"]:
        """That of the support and the queries together, after adaptation."""
        learner, tasks = iteration.learner, iteration.tasks
        end, _ = self.adapted(iteration.adaptation)
        said = learner.outputs(end[..., : learner.d], torch.cat([tasks.x, tasks.query_x], dim=2))
        return learner.sample_loss(said, torch.cat([tasks.y, tasks.query_y], dim=2)).mean(-1)

    def adapted(self, adaptation: Adaptation) -> tuple[Float[Tensor, "S B D"], InnerState]:
        learner, _, memory, tasks, batches, inner = adaptation
        network, extra = adaptation.network, adaptation.extra
        copies = extra.unflatten(-1, (self.copies, -1)).unbind(2)
        for batch, copy in zip(each_step(batches), chain(copies, repeat(copies[-1])), strict=False):
            gradient = self._gradient(learner, copy, tasks)
            network, memory = adapt(gradient, network, memory, tasks.x, batch, inner)
        return torch.cat([network, extra], dim=-1), memory

    def answers(
        self, learner: Learner, theta: Float[Tensor, "S B D"], tasks: Tasks, x: Shaped[Tensor, "S B q *shape"]
    ) -> Shaped[Tensor, "S B q *out"]:
        """In one batch with the support, as in training."""
        said = learner.outputs(theta[..., : learner.d], torch.cat([tasks.x, x], dim=2))
        return said[:, :, tasks.x.shape[2] :]

    def _gradient(self, learner: Learner, copy: Float[Tensor, "S B C"], tasks: Tasks) -> Gradient:
        """The gradient of one step's inner loss."""
        rule = self.rule(learner, copy)

        def gradient(point: Tensor, x: Tensor, y: Tensor, weight: Tensor) -> Tensor:
            recorded = torch.is_grad_enabled() and point.requires_grad
            with torch.enable_grad():
                at = point if recorded else point.detach().requires_grad_()
                said = learner.outputs(at, torch.cat([x, tasks.query_x], dim=2))
                support, queries = said.split([x.shape[2], tasks.query_x.shape[2]], dim=2)
                loss = weighted_mean(learner.sample_loss(support, y), weight)
                judged, judged_queries = learnt_losses(learner, at, copy, loss, support, y, queries)
                total = loss + weighted_mean(judged, weight) + judged_queries.mean(-1)
                return rule(torch.autograd.grad(total.sum(), at, create_graph=recorded)[0])

        return gradient


def learnt_losses(
    learner: Learner,
    network: Float[Tensor, "S B d"],
    copy: Float[Tensor, "S B C"],
    loss: Float[Tensor, "S B"],
    support: Float[Tensor, "S B b way"],
    y: Int[Tensor, "S B b"],
    queries: Float[Tensor, "S B q way"],
) -> tuple[Float[Tensor, "S B b"], Float[Tensor, "S B q"]]:
    """What one copy of the networks says about each sample of the support, and about each query.

    The one for the support is told the loss, the means of the tensors that the inner loop changes, the answer and the
    label; that for the queries the means, the answer and how sure it is.
    """
    shapes = _shapes(learner)
    parts = [
        part.unflatten(-1, shape) for part, shape in zip(copy.split([prod(s) for s in shapes], -1), shapes, strict=True)
    ]
    pieces = zip(
        learner.shapes, network.split([shape.numel() for shape in learner.shapes.values()], dim=-1), strict=True
    )
    means = torch.stack([piece.mean(-1) for name, piece in pieces if name not in learner.norms], dim=-1)
    task = torch.cat([loss[..., None], means], dim=-1)
    label = one_hot(y, support.shape[-1]).to(support)
    log = queries.log_softmax(-1)
    sureness = (log.exp() * log).sum(-1, keepdim=True)
    seen = _standard(torch.cat([_for_each(task, support), support, label], dim=-1))
    seen_queries = _standard(torch.cat([_for_each(means, queries), queries, sureness], dim=-1))
    half = len(parts) // 2
    return (
        _judged(seen, _standard(task[:, :, None]), parts[:half]),
        _judged(seen_queries, seen_queries.mean(2, keepdim=True), parts[half:]),
    )


def _shapes(learner: Learner) -> list[tuple[int, ...]]:
    """The tensors of one copy: for the support and then for the queries, a loss network, its adapter, two factors."""
    tensors = list(learner.shapes.values())
    count, way = len(tensors) - len(learner.norms), tensors[-1][0]
    support, queries = 1 + count + 2 * way, count + way + 1
    shapes: list[tuple[int, ...]] = []
    for size, told in ((support, 1 + count), (queries, queries)):
        for width, outputs in ((size, 1), (told, 8)):
            shapes += [(width, width), (width,), (outputs, width), (outputs,)]
        shapes += [(4,), (4,)]
    return shapes


def _for_each(vector: Float[Tensor, "S B k"], samples: Float[Tensor, "S B n way"]) -> Float[Tensor, "S B n k"]:
    return vector[:, :, None].expand(-1, -1, samples.shape[2], -1)


def _standard(state: Float[Tensor, "S B n k"]) -> Float[Tensor, "S B n k"]:
    """With mean 0 and variance 1 over all numbers of a task."""
    return (state - state.mean((2, 3), keepdim=True)) / (state.std((2, 3), keepdim=True) + 1e-12)


def _judged(
    seen: Float[Tensor, "S B n k"], told: Float[Tensor, "S B 1 t"], parts: Sequence[Tensor]
) -> Float[Tensor, "S B n"]:
    """What a loss network says about what it has seen, once its adapter was told about the task."""
    network, adapter, (scale, shift) = parts[:4], parts[4:8], parts[8:]
    scales, shifts = _two_layers(told, adapter)[:, :, 0].chunk(2, dim=-1)
    changed = [
        (1 + factor.view(like)) * part + offset.view(like)
        for part, factor, offset in zip(network, (scale * scales).unbind(-1), (shift * shifts).unbind(-1), strict=True)
        for like in [(*part.shape[:2], *[1] * (part.ndim - 2))]
    ]
    return _two_layers(seen, changed)[..., 0]


def _two_layers(x: Float[Tensor, "S B n k"], parts: Sequence[Tensor]) -> Float[Tensor, "S B n out"]:
    first, first_bias, second, second_bias = parts
    hidden = (x @ first.mT + first_bias[:, :, None]).relu()
    return hidden @ second.mT + second_bias[:, :, None]
