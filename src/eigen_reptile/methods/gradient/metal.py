"""MeTAL: MAML with a learnt inner loss that adapts itself to the task."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from math import prod
from typing import final

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor
from torch.nn.functional import one_hot

from eigen_reptile.errors import ConfigError
from eigen_reptile.inner import Gradient, InnerState, adapt
from eigen_reptile.methods.gradient.adapted_parameters import AdaptedParameters
from eigen_reptile.methods.gradient.gradient_method import META_LOSS, GradientMethod, MetaLosses
from eigen_reptile.methods.method import Adaptation, MetaBatch, Requirements, TaskSpec
from eigen_reptile.nn.flat_module import FlatModule
from eigen_reptile.nn.losses import weighted_mean
from eigen_reptile.nn.network import Network
from eigen_reptile.runtime.rng import generator_at
from eigen_reptile.tasks import Tasks, each_step


@final
@dataclass(frozen=True)
class Metal(GradientMethod):
    """Baik et al. 2021, https://arxiv.org/abs/2110.03909: small learnt networks add terms to the inner loss.

    One network scores the support samples, another the queries without their labels, so that adaptation is always
    transductive. Each has an adapter that scales and shifts its parameters for the task. Use it when all queries of a
    task are available at once and training time is no concern: it is the most expensive method.
    """

    copies: int = 5
    """Number of loss networks and of adapters, one of each per inner step; further steps use the last ones."""
    adapted: AdaptedParameters = AdaptedParameters()
    """What the inner loop changes."""

    def __post_init__(self) -> None:
        if self.copies < 1:
            raise ConfigError(f"`method.copies` must be at least 1, not {self.copies}")

    @property
    def requirements(self) -> Requirements:
        return Requirements(
            queries=True, classification_only=True, support_in_batch=True, extra_parameters=self._initial_loss_networks
        )

    def _initial_loss_networks(self, network: Network, seed: int, spec: TaskSpec) -> Float[Tensor, "E"]:
        """Xavier weights and zero biases; adapters that change nothing."""
        rng = torch.Generator().manual_seed(int(generator_at(seed, "init", 1).integers(2**63)))
        parts = [torch.zeros(shape) for _ in range(self.copies) for shape in _loss_network_shapes(network.module)]
        for part in parts:
            if part.ndim == 2:
                torch.nn.init.xavier_uniform_(part, generator=rng)
        return torch.cat([part.flatten() for part in parts])

    def meta_losses(self, batch: MetaBatch) -> MetaLosses:
        """The loss of support and queries together, after adaptation."""
        network, tasks = batch.network, batch.tasks
        theta, _ = self.adapt(batch.adaptation)
        outputs = network.outputs(theta[..., : network.d], torch.cat([tasks.x, tasks.query_x], dim=2))
        losses = network.sample_loss(outputs, torch.cat([tasks.y, tasks.query_y], dim=2))
        return MetaLosses({META_LOSS: losses.mean(-1)})

    def adapt(self, adaptation: Adaptation) -> tuple[Float[Tensor, "S B D"], InnerState]:
        network, _, state, tasks, batches, inner = adaptation
        point, extra = adaptation.network_theta, adaptation.extra
        copies = extra.unflatten(-1, (self.copies, -1)).unbind(2)
        for batch, copy in zip(each_step(batches), chain(copies, repeat(copies[-1])), strict=False):
            gradient = self._gradient(network, copy, tasks)
            point, state = adapt(gradient, point, state, tasks.x, batch, inner)
        return torch.cat([point, extra], dim=-1), state

    def predict(
        self, network: Network, theta: Float[Tensor, "S B D"], tasks: Tasks, x: Shaped[Tensor, "S B q *shape"]
    ) -> Shaped[Tensor, "S B q *out"]:
        """In one batch with the support, as in training."""
        outputs = network.outputs(theta[..., : network.d], torch.cat([tasks.x, x], dim=2))
        return outputs[:, :, tasks.x.shape[2] :]

    def _gradient(self, network: Network, copy: Float[Tensor, "S B C"], tasks: Tasks) -> Gradient:
        """The gradient of the inner loss of one step."""
        change = self.adapted.masked(network.module, copy.device, lambda gradient: gradient)

        def gradient(point: Tensor, x: Tensor, y: Tensor, weight: Tensor) -> Tensor:
            differentiable = torch.is_grad_enabled() and point.requires_grad
            with torch.enable_grad():
                at = point if differentiable else point.detach().requires_grad_()
                outputs = network.outputs(at, torch.cat([x, tasks.query_x], dim=2))
                support, queries = outputs.split([x.shape[2], tasks.query_x.shape[2]], dim=2)
                loss = weighted_mean(network.sample_loss(support, y), weight)
                support_terms, query_terms = learnt_losses(network.module, at, copy, loss, support, y, queries)
                total = loss + weighted_mean(support_terms, weight) + query_terms.mean(-1)
                return change(torch.autograd.grad(total.sum(), at, create_graph=differentiable)[0])

        return gradient


def learnt_losses(
    module: FlatModule,
    theta: Float[Tensor, "S B d"],
    copy: Float[Tensor, "S B C"],
    loss: Float[Tensor, "S B"],
    support: Float[Tensor, "S B b way"],
    y: Int[Tensor, "S B b"],
    queries: Float[Tensor, "S B q way"],
) -> tuple[Float[Tensor, "S B b"], Float[Tensor, "S B q"]]:
    """The learnt loss of each support sample, and of each query, from one copy of the loss networks.

    The network for the support sees the loss, the mean of each tensor outside of batch-norm, the outputs and the label;
    that for the queries sees the means, the outputs and their negative entropy.
    """
    shapes = _loss_network_shapes(module)
    parts = [
        part.unflatten(-1, shape) for part, shape in zip(copy.split([prod(s) for s in shapes], -1), shapes, strict=True)
    ]
    pieces = zip(module.shapes, theta.split(module.sizes, dim=-1), strict=True)
    means = torch.stack([piece.mean(-1) for name, piece in pieces if name not in module.norms], dim=-1)
    task = torch.cat([loss[..., None], means], dim=-1)
    label = one_hot(y, support.shape[-1]).to(support)
    log = queries.log_softmax(-1)
    negative_entropy = (log.exp() * log).sum(-1, keepdim=True)
    of_support = _standardise(torch.cat([_repeat_for_samples(task, support), support, label], dim=-1))
    of_queries = _standardise(torch.cat([_repeat_for_samples(means, queries), queries, negative_entropy], dim=-1))
    half = len(parts) // 2
    return (
        _learnt_loss(of_support, _standardise(task[:, :, None]), parts[:half]),
        _learnt_loss(of_queries, of_queries.mean(2, keepdim=True), parts[half:]),
    )


def _loss_network_shapes(module: FlatModule) -> list[tuple[int, ...]]:
    """The tensors of one copy: for the support, then for the queries, a loss network, its adapter and two factors."""
    tensors = list(module.shapes.values())
    count, way = len(tensors) - len(module.norms), tensors[-1][0]
    support, queries = 1 + count + 2 * way, count + way + 1
    shapes: list[tuple[int, ...]] = []
    for loss_width, adapter_width in ((support, 1 + count), (queries, queries)):
        for width, outputs in ((loss_width, 1), (adapter_width, 8)):
            shapes += [(width, width), (width,), (outputs, width), (outputs,)]
        shapes += [(4,), (4,)]
    return shapes


def _repeat_for_samples(
    vector: Float[Tensor, "S B k"], samples: Float[Tensor, "S B n way"]
) -> Float[Tensor, "S B n k"]:
    return vector[:, :, None].expand(-1, -1, samples.shape[2], -1)


def _standardise(features: Float[Tensor, "S B n k"]) -> Float[Tensor, "S B n k"]:
    """Mean 0 and variance 1 over all numbers of a task."""
    return (features - features.mean((2, 3), keepdim=True)) / (features.std((2, 3), keepdim=True) + 1e-12)


def _learnt_loss(
    features: Float[Tensor, "S B n k"], task: Float[Tensor, "S B 1 t"], parts: Sequence[Tensor]
) -> Float[Tensor, "S B n"]:
    """The output of a loss network for each sample, after its adapter has seen the task."""
    network, adapter, (scale, shift) = parts[:4], parts[4:8], parts[8:]
    scales, shifts = _two_layer_network(task, adapter)[:, :, 0].chunk(2, dim=-1)
    adapted = [
        (1 + factor.view(like)) * part + offset.view(like)
        for part, factor, offset in zip(network, (scale * scales).unbind(-1), (shift * shifts).unbind(-1), strict=True)
        for like in [(*part.shape[:2], *[1] * (part.ndim - 2))]
    ]
    return _two_layer_network(features, adapted)[..., 0]


def _two_layer_network(x: Float[Tensor, "S B n k"], parts: Sequence[Tensor]) -> Float[Tensor, "S B n out"]:
    first, first_bias, second, second_bias = parts
    hidden = (x @ first.mT + first_bias[:, :, None]).relu()
    return hidden @ second.mT + second_bias[:, :, None]
