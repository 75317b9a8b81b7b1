"""A network with its loss, as functions of theta, for S replicas times B tasks at once."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ParamSpec, TypeVar, final

import torch
from jaxtyping import Float, Shaped
from torch import Tensor
from torch.func import grad, vmap

from eigen_reptile.errors import ConfigError
from eigen_reptile.nn.compiler import Compiler
from eigen_reptile.nn.flat_module import FlatModule
from eigen_reptile.nn.losses import SampleLoss, weighted_mean

P = ParamSpec("P")
T = TypeVar("T")


@final
@dataclass(frozen=True, eq=False)
class Network:
    """A flat module and a loss: outputs, losses and gradients for each of S x B parameter vectors."""

    module: FlatModule
    sample_loss: SampleLoss
    batched: bool = False
    """Whether all S x B networks run as one batched computation; otherwise one after the other."""
    compiler: Compiler | None = None
    """Compiles the gradient of one network, where no second derivative is needed. Batched networks are better compiled
    together with everything around them."""
    arguments: tuple[object, ...] = ()
    """Extra `forward` arguments."""
    training: bool = False
    """Whether batch-norm is in training mode: it uses batch statistics and updates the running ones."""

    def __post_init__(self) -> None:
        if self.batched and self.module.running:
            raise ConfigError("a network with running statistics cannot be batched")

    @property
    def d(self) -> int:
        """Number of parameters."""
        return self.module.d

    def with_loss(self, sample_loss: SampleLoss) -> "Network":
        return replace(self, sample_loss=sample_loss)

    def with_arguments(self, *arguments: object) -> "Network":
        """The same network with extra `forward` arguments bound."""
        return replace(self, arguments=arguments)

    def in_training(self) -> "Network":
        """The same network in training mode, where running statistics follow those of the batches."""
        return replace(self, training=True) if self.module.running else self

    def compiled(self, name: str, function: Callable[P, T]) -> Callable[P, T]:
        """The function, compiled under this name if this network's training compiles."""
        return function if self.compiler is None else self.compiler.compiled(name, function, function)

    def outputs(self, theta: Float[Tensor, "S B d"], x: Shaped[Tensor, "S B b *shape"]) -> Shaped[Tensor, "S B b *out"]:
        """Outputs of each of the S x B networks for its own b samples."""
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

        No task depends on the parameters of another, so the gradient of the summed loss holds them all.
        """
        if self.batched and (torch.is_grad_enabled() or torch.compiler.is_compiling()):
            gradient: Tensor = grad(lambda point: self.loss(point, x, y, weight).sum())(theta)
            return gradient
        if self.batched:  # the same, but the first call of torch.func takes seconds to import the compiler
            with torch.enable_grad():
                point = theta.detach().requires_grad_()
                return torch.autograd.grad(self.loss(point, x, y, weight).sum(), point)[0]
        # torch.func costs more here; and only one task's graph is in memory at a time, unless this gradient is to be
        # differentiated again.
        networks = zip(*(part.flatten(0, 1) for part in (theta, x, y, weight)), strict=True)
        return torch.stack([self._gradient_of_one(*one) for one in networks]).view(theta.shape)

    def _gradient_of_one(self, theta: Tensor, x: Tensor, y: Tensor, weight: Tensor) -> Float[Tensor, "d"]:
        differentiable = torch.is_grad_enabled() and theta.requires_grad
        if differentiable or self.module.has_buffers:
            with torch.enable_grad():
                point = theta if differentiable else theta.detach().requires_grad_()
                loss = self._loss_of_one(point, x, y, weight)
                return torch.autograd.grad(loss, point, create_graph=differentiable)[0]
        compilable = not (self.arguments or self.module.running)
        if self.compiler is not None and compilable and torch.get_num_threads() == 1:
            name = ("gradient", self.sample_loss)
            compiled = self.compiler.find(name) or self.compiler.compiled(
                name, grad(self._loss_of_one), self._gradient_by_backward
            )
            for part in (x, y, weight):
                torch._dynamo.maybe_mark_dynamic(part, 0)  # one compiled function for any number of samples
            with torch.no_grad():
                found: Tensor = compiled(theta, x, y, weight)
            return found
        return self._gradient_by_backward(theta, x, y, weight)

    def _loss_of_one(self, theta: Tensor, x: Tensor, y: Tensor, weight: Tensor) -> Float[Tensor, ""]:
        return weighted_mean(self.sample_loss(self._functional(theta, x), y), weight)

    def _gradient_by_backward(self, theta: Tensor, x: Tensor, y: Tensor, weight: Tensor) -> Float[Tensor, "d"]:
        with torch.enable_grad():
            view = self.module.module_at(theta, self.training)
            output = view.module(self._as_input(x, theta), *self.arguments)
            view.gradient.zero_()
            weighted_mean(self.sample_loss(output, y), weight).backward(inputs=view.parameters)
            return view.gradient.clone()

    def output(self, theta: Float[Tensor, "d"], x: Shaped[Tensor, "b *shape"]) -> Shaped[Tensor, "b *out"]:
        """Outputs of one network for b samples."""
        differentiable = torch.is_grad_enabled() and (theta.requires_grad or x.requires_grad)
        if self.batched or self.module.has_buffers or differentiable:
            return self._functional(theta, x)
        with torch.no_grad():
            view = self.module.module_at(theta, self.training)
            output: Tensor = view.module(self._as_input(x, theta), *self.arguments)
        return output

    def _functional(self, theta: Float[Tensor, "d"], x: Shaped[Tensor, "b *shape"]) -> Shaped[Tensor, "b *out"]:
        shared = self.batched or torch.compiler.is_compiling()
        return self.module(theta, self._as_input(x, theta), self.arguments, self.training, shared)

    def _as_input(self, x: Tensor, theta: Tensor) -> Tensor:
        """Image bytes as numbers from 0 to 1, in the memory layout in which a CPU convolves faster."""
        if x.dtype == torch.uint8:
            x = x.to(theta.dtype).div_(255)
        return x.contiguous(memory_format=torch.channels_last) if x.ndim == 4 and not self.batched else x
