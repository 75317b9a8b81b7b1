"""A network as a function of one flat vector of parameters: whoever uses it need not know its layers."""

import copy
import threading
from collections.abc import Callable
from math import prod
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor, nn
from torch.func import functional_call, grad, replace_all_batch_norm_modules_, vmap
from torch.nn.functional import cross_entropy

from eigen_reptile.compiled import ONE_THREAD, Compiled, compiled
from eigen_reptile.running_norm import RUNNING, RunningNorm
from eigen_reptile.streams import stream

NORMS = nn.modules.batchnorm._NormBase | nn.LayerNorm | nn.GroupNorm | nn.RMSNorm | RunningNorm
"""Layers that normalise."""

SampleLoss = Callable[[Tensor, Tensor], Tensor]
"""Outputs (..., b, out) and targets (..., b) or (..., b, out) -> one loss for each sample (..., b)."""


def squared_error(output: Float[Tensor, "*L b out"], y: Float[Tensor, "*L b out"]) -> Float[Tensor, "*L b"]:
    return (output - y).square().mean(-1)


def class_error(output: Float[Tensor, "*L b way"], y: Int[Tensor, "*L b"]) -> Float[Tensor, "*L b"]:
    """Cross-entropy of the softmax."""
    return cross_entropy(output.flatten(0, -2), y.flatten(), reduction="none").view(y.shape)


def _draws_at_random(module: nn.Module) -> bool:
    if isinstance(module, nn.modules.dropout._DropoutNd):
        return module.p > 0
    if isinstance(module, nn.MultiheadAttention | nn.RNNBase):
        return module.dropout > 0
    return isinstance(module, nn.RReLU) and module.lower < module.upper


class Learner:
    """Any `nn.Module` seen as a pure function of theta, for S lanes times B tasks at once.

    The module is only a template: its own parameter values are never used. Torch's batch-norm layers use the
    statistics of the batch, at all times; `RunningNorm` has others after training. With `batched` all networks run as
    one computation; otherwise one after the other.
    """

    def __init__(self, build: Callable[[], nn.Module], sample_loss: SampleLoss, batched: bool = False) -> None:
        self._build = build
        # A copy, because what `build` gives away may be used elsewhere; and no draw that others would feel.
        with torch.random.fork_rng(devices=[]):
            self._template = replace_all_batch_norm_modules_(copy.deepcopy(build()))
        self._own = threading.local()
        self._names = [name for name, _ in self._template.named_parameters()]
        self._shapes = [parameter.shape for parameter in self._template.parameters()]
        self._sizes = [prod(shape) for shape in self._shapes]
        modules = dict(self._template.named_modules())
        places = {name: name.rpartition(".") for name in self._names}
        self.norms = {name for name, (layer, _, _) in places.items() if isinstance(modules[layer], NORMS)}
        """The parameters of layers that normalise: their scales and shifts."""
        self.statistics = {
            name
            for name, (layer, _, kind) in places.items()
            if isinstance(modules[layer], RunningNorm) and kind in RUNNING
        }
        """Those of them that are running statistics."""
        self._in_training = False
        self._ties = len(self._names) < len(list(self._template.named_parameters(remove_duplicate=False)))
        self._has_buffers = any(True for _ in self._template.buffers())
        self._told: tuple[object, ...] = ()
        self._compiled: Compiled[[Tensor, Tensor, Tensor, Tensor], Tensor] | None = None
        self._with_losses: dict[SampleLoss, Learner] = {}  # so that each is compiled once
        self.sample_loss = sample_loss
        self.batched = batched and not self.statistics
        for name, module in modules.items():
            if _draws_at_random(module):
                raise ValueError(f"{name} draws at random, but a learner must be a pure function: switch that off")

    @property
    def d(self) -> int:
        """Number of parameters."""
        return sum(self._sizes)

    def to(self, device: torch.device) -> "Learner":
        """This learner, with the buffers of its module, if it has any, on a device."""
        self._template.to(device)
        self._own, self._with_losses = threading.local(), {}
        return self

    def with_loss(self, sample_loss: SampleLoss) -> "Learner":
        """The same network with another loss, compiled if this one is."""
        if sample_loss not in self._with_losses:
            learner = copy.copy(self)
            learner.sample_loss, learner._compiled, learner._with_losses = sample_loss, None, {}
            if self._compiled is None:
                return learner
            self._with_losses[sample_loss] = learner.compiled(self._compiled.required)
        return self._with_losses[sample_loss]

    def told(self, *more: object) -> "Learner":
        """The same network, whose module is called with these beside its samples."""
        learner = copy.copy(self)
        learner._told, learner._compiled, learner._with_losses = more, None, {}
        return learner

    def in_training(self) -> "Learner":
        """The same network while it is trained: running statistics follow their batches, and do not act."""
        if not self.statistics:
            return self
        learner = copy.copy(self)
        learner._in_training = True
        return learner

    def compiled(self, required: bool = False) -> "Learner":
        """The same network, whose gradient is compiled if it is that of one network, and nobody differentiates it.

        If that is not required, it is done without where it does not work. `batched` networks are better compiled
        together with all that is done to them, and those with buffers or running statistics not at all.
        """
        learner = copy.copy(self)
        learner._with_losses = {}
        if not (self.batched or self._has_buffers or self.statistics):
            traced = compiled(grad(self._own_loss), fullgraph=True, options=ONE_THREAD)
            learner._compiled = Compiled(traced, self._placed_gradient, required)
        return learner

    @property
    def shapes(self) -> dict[str, torch.Size]:
        """The parameters, in the order in which theta has them."""
        return dict(zip(self._names, self._shapes, strict=True))

    @property
    def head(self) -> set[str]:
        """The parameters of the last layer."""
        layer = self._names[-1].rpartition(".")[0]
        return {name for name in self._names if name.rpartition(".")[0] == layer}

    def within(self, layer: str) -> Bool[Tensor, "d"] | None:
        """Which numbers of theta are those of layers of this name, or None if there is no such layer."""
        found = {name for name in self._names if layer in name.split(".")}
        return self.where(found) if found else None

    def where(self, names: set[str]) -> Bool[Tensor, "d"]:
        """Which numbers of theta are those of these parameters."""
        sizes = zip(self._names, self._sizes, strict=True)
        return torch.cat([torch.full((size,), name in names) for name, size in sizes])

    def init(self, seed: int) -> Float[Tensor, "d"]:
        """Fresh parameters: the module's own initialisation under this seed; the global generator is untouched."""
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(int(stream(seed, "init").integers(2**63)))
            module = self._build()
        return torch.cat([parameter.detach().reshape(-1) for parameter in module.parameters()])

    def features(self, shape: tuple[int, ...]) -> int:
        """How many numbers the network says about one input of this shape."""
        theta = torch.cat([parameter.detach().reshape(-1) for parameter in self._template.parameters()])
        with torch.no_grad():  # two samples, because batch-norm refuses one
            return self.output(theta, theta.new_zeros(2, *shape)).shape[1:].numel()

    def outputs(self, theta: Float[Tensor, "S B d"], x: Shaped[Tensor, "S B b *shape"]) -> Shaped[Tensor, "S B b *out"]:
        """What each of the S x B networks says about its own b samples."""
        networks, samples = theta.flatten(0, 1), x.flatten(0, 1)
        if self.batched:
            flat: Tensor = vmap(self.output)(networks, samples)
        else:
            flat = torch.stack([self.output(*one) for one in zip(networks, samples, strict=True)])
        return flat.reshape(*theta.shape[:2], *flat.shape[1:])

    def losses(
        self,
        theta: Float[Tensor, "S B d"],
        x: Shaped[Tensor, "S B b *shape"],
        y: Shaped[Tensor, "S B b *target"],
    ) -> Float[Tensor, "S B b"]:
        """The loss of each sample."""
        return self.sample_loss(self.outputs(theta, x), y)

    def loss(
        self,
        theta: Float[Tensor, "S B d"],
        x: Shaped[Tensor, "S B b *shape"],
        y: Shaped[Tensor, "S B b *target"],
        weight: Float[Tensor, "S B b"],
    ) -> Float[Tensor, "S B"]:
        """Weighted mean over the samples of each task; zero where all weights are zero."""
        return weighted_mean(self.losses(theta, x, y), weight)

    def gradient(
        self,
        theta: Float[Tensor, "S B d"],
        x: Shaped[Tensor, "S B b *shape"],
        y: Shaped[Tensor, "S B b *target"],
        weight: Float[Tensor, "S B b"],
    ) -> Float[Tensor, "S B d"]:
        """The gradient of each task's own loss.

        The tasks do not touch each other, so the gradient of the sum of their losses holds them all.
        """
        if self.batched and (torch.is_grad_enabled() or torch.compiler.is_compiling()):
            gradient: Tensor = grad(lambda point: self.loss(point, x, y, weight).sum())(theta)
            return gradient
        if self.batched:  # the same; but the first call of torch.func's takes seconds, to import the compiler
            with torch.enable_grad():
                point = theta.detach().requires_grad_()
                return torch.autograd.grad(self.loss(point, x, y, weight).sum(), point)[0]
        # torch.func costs more here; and one task's graph at a time is all the memory that is needed, unless
        # this gradient is to be differentiated again.
        networks = zip(*(part.flatten(0, 1) for part in (theta, x, y, weight)), strict=True)
        return torch.stack([self._own_gradient(*one) for one in networks]).view(theta.shape)

    def _own_gradient(self, theta: Tensor, x: Tensor, y: Tensor, weight: Tensor) -> Float[Tensor, "d"]:
        """The gradient of one network's loss."""
        differentiable = torch.is_grad_enabled() and theta.requires_grad
        if differentiable or self._has_buffers:
            with torch.enable_grad():
                point = theta if differentiable else theta.detach().requires_grad_()
                return torch.autograd.grad(self._own_loss(point, x, y, weight), point, create_graph=differentiable)[0]
        if self._compiled is not None and torch.get_num_threads() == 1:
            for part in (x, y, weight):
                torch._dynamo.maybe_mark_dynamic(part, 0)  # one code for any number of samples
            with torch.no_grad():
                return self._compiled(theta, x, y, weight)
        return self._placed_gradient(theta, x, y, weight)

    def _own_loss(self, theta: Tensor, x: Tensor, y: Tensor, weight: Tensor) -> Float[Tensor, ""]:
        return weighted_mean(self.sample_loss(self._functional(theta, x), y), weight)

    def _placed_gradient(self, theta: Tensor, x: Tensor, y: Tensor, weight: Tensor) -> Float[Tensor, "d"]:
        with torch.enable_grad():
            network = self._placed_at(theta)
            loss = weighted_mean(self.sample_loss(network.module(self._numbers(x, theta), *self._told), y), weight)
            network.gradient.zero_()
            loss.backward(inputs=network.parameters)
            return network.gradient.clone()

    def output(self, theta: Float[Tensor, "d"], x: Shaped[Tensor, "b *shape"]) -> Shaped[Tensor, "b *out"]:
        """What one network says about b samples."""
        recorded = torch.is_grad_enabled() and (theta.requires_grad or x.requires_grad)
        if self.batched or self._has_buffers or recorded:
            return self._functional(theta, x)
        with torch.no_grad():
            output: Tensor = self._placed_at(theta).module(self._numbers(x, theta), *self._told)
        return output

    def _functional(self, theta: Float[Tensor, "d"], x: Shaped[Tensor, "b *shape"]) -> Shaped[Tensor, "b *out"]:
        """The same, differentiable and batchable in theta and x."""
        pieces = theta.split(self._sizes)
        parameters = {
            name: piece.view(shape) for name, piece, shape in zip(self._names, pieces, self._shapes, strict=True)
        }
        shared = self.batched or torch.compiler.is_compiling()  # or else this thread's own
        module = self._template if shared else self._placed_at(theta.detach()).module
        if self._has_buffers:
            # Copies, so that a module that changes them says the same when asked again.
            parameters |= {name: buffer.clone() for name, buffer in module.named_buffers()}
        arguments = (self._numbers(x, theta), *self._told)
        output: Tensor = functional_call(module, parameters, arguments, tie_weights=self._ties)
        return output

    def _numbers(self, x: Tensor, theta: Tensor) -> Tensor:
        """The bytes of a picture as numbers from 0 to 1, in the layout in which a CPU convolves faster."""
        if x.dtype == torch.uint8:
            x = x.to(theta.dtype).div_(255)
        return x.contiguous(memory_format=torch.channels_last) if x.ndim == 4 and not self.batched else x

    def _placed_at(self, theta: Float[Tensor, "d"]) -> "_Network":
        """This thread's own network, with these parameters: several times faster than a functional call."""
        network: _Network | None = getattr(self._own, "network", None)
        if network is None or (network.flat.dtype, network.flat.device) != (theta.dtype, theta.device):
            module = copy.deepcopy(self._template).to(theta)
            network = _Network(module, list(module.parameters()), torch.empty_like(theta), torch.empty_like(theta))
            pieces = (flat.split(self._sizes) for flat in (network.flat, network.gradient))
            for parameter, value, gradient in zip(network.parameters, *pieces, strict=True):
                parameter.data, parameter.grad = value.view(parameter.shape), gradient.view(parameter.shape)
            self._own.network = network
        if self.statistics:
            network.module.train(self._in_training)
        network.flat.copy_(theta)
        return network


class _Network(NamedTuple):
    """A module whose parameters are pieces of one flat vector, and their gradients pieces of another."""

    module: nn.Module
    parameters: list[nn.Parameter]
    flat: Float[Tensor, "d"]
    gradient: Float[Tensor, "d"]


def weighted_mean(losses: Float[Tensor, "*L b"], weight: Float[Tensor, "*L b"]) -> Float[Tensor, "*L"]:
    return (weight * losses).sum(-1) / weight.sum(-1).clamp(min=torch.finfo(weight.dtype).tiny)
