"""A network as a function of one flat vector of parameters. Only this file knows layers."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from math import prod

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn
from torch.func import functional_call, vmap

from eigen_reptile.streams import stream

SampleLoss = Callable[[Tensor, Tensor], Tensor]
"""Outputs (..., b, out) and targets (..., b, out) -> one loss for each sample (..., b)."""


def squared_error(output: Float[Tensor, "*L b out"], y: Float[Tensor, "*L b out"]) -> Float[Tensor, "*L b"]:
    return (output - y).square().mean(-1)


@dataclass(frozen=True)
class Mlp:
    """A fully connected network with tanh between its layers."""

    hidden: tuple[int, ...] = (64, 64)
    """Width of each hidden layer."""

    def __post_init__(self) -> None:
        if any(width < 1 for width in self.hidden):
            raise ValueError(f"hidden widths must be at least 1, not {self.hidden}")

    def build(self, inputs: int, outputs: int) -> nn.Module:
        layers: list[nn.Module] = []
        for before, after in pairwise((inputs, *self.hidden, outputs)):
            layers += [nn.Linear(before, after), nn.Tanh()]
        return nn.Sequential(*layers[:-1])


MODELS = {"mlp": Mlp}


class Learner:
    """Any `nn.Module` seen as a pure function of theta, for S lanes times B tasks at once.

    The module itself is only a template: its own parameter values are never used.
    """

    def __init__(self, build: Callable[[], nn.Module], sample_loss: SampleLoss) -> None:
        self._build = build
        self._template = build()
        self._names = [name for name, _ in self._template.named_parameters()]
        self._shapes = [parameter.shape for parameter in self._template.parameters()]
        self._sizes = [prod(shape) for shape in self._shapes]
        self._sample_loss = sample_loss

    @property
    def d(self) -> int:
        """Number of parameters."""
        return sum(self._sizes)

    def init(self, seed: int) -> Float[Tensor, "d"]:
        """Fresh parameters: the module's own initialisation under this seed; the global generator is untouched."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(stream(seed, "init").integers(2**63)))
            module = self._build()
        return torch.cat([parameter.detach().reshape(-1) for parameter in module.parameters()])

    def outputs(self, theta: Float[Tensor, "S B d"], x: Shaped[Tensor, "S B b *shape"]) -> Shaped[Tensor, "S B b *out"]:
        """What each of the S x B networks says about its own b samples."""
        flat: Tensor = vmap(self._call)(theta.flatten(0, 1), x.flatten(0, 1))
        return flat.reshape(*theta.shape[:2], *flat.shape[1:])

    def loss(
        self,
        theta: Float[Tensor, "S B d"],
        x: Shaped[Tensor, "S B b *shape"],
        y: Shaped[Tensor, "S B b *target"],
        weight: Float[Tensor, "S B b"],
    ) -> Float[Tensor, "S B"]:
        """Weighted mean over the samples of each task; zero where all weights are zero."""
        losses = self._sample_loss(self.outputs(theta, x), y)
        return (weight * losses).sum(-1) / weight.sum(-1).clamp(min=torch.finfo(weight.dtype).tiny)

    def _call(self, theta: Tensor, x: Tensor) -> Tensor:
        pieces = theta.split(self._sizes)
        parameters = {
            name: piece.view(shape) for name, piece, shape in zip(self._names, pieces, self._shapes, strict=True)
        }
        output: Tensor = functional_call(self._template, parameters, (x,))
        return output
