"""Meta-dropout: MAML with meta-learnt noise in the inner loop."""

from dataclasses import dataclass
from hashlib import sha256
from typing import Literal, final

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from eigen_reptile.errors import ConfigError
from eigen_reptile.inner import InnerState
from eigen_reptile.methods.gradient.adapted_parameters import AdaptedParameters, adapt_network
from eigen_reptile.methods.gradient.gradient_method import META_LOSS, GradientMethod, MetaLosses, query_loss
from eigen_reptile.methods.method import Adaptation, MetaBatch, Requirements
from eigen_reptile.nn.network import Network
from eigen_reptile.runtime.rng import generator_at
from eigen_reptile.tasks import Tasks

NOISE = "noise"
"""Name of the layers that compute the strength of noise."""


@final
@dataclass(frozen=True)
class MetaDropout(GradientMethod):
    """Lee et al. 2020, https://openreview.net/forum?id=BJgd81SYwr: adapt under noise of a meta-learnt strength.

    In the inner loop every layer is noisy; queries are predicted without noise. The noise of a mini-batch is drawn from
    a seed made of its own samples, so that it does not depend on where or when a task is computed. Convolutions have no
    bias, as everywhere in this library. Use it against overfitting to a small support, with a network that has noise
    layers (`model.layers` noise); without them this is MAML.
    """

    order: Literal[1, 2] = 2
    """2: the meta-gradient goes through the inner gradients. 1: it treats them as constants."""
    adapted: AdaptedParameters = AdaptedParameters(frozen=(NOISE,))
    """What the inner loop changes."""
    samples: int = 5
    """Number of noise draws that each inner step averages over in evaluation (the authors use 30); training uses
    one."""

    def __post_init__(self) -> None:
        if self.samples < 1:
            raise ConfigError(f"`method.samples` must be at least 1, not {self.samples}")

    @property
    def requirements(self) -> Requirements:
        return Requirements(queries=True)

    def meta_losses(self, batch: MetaBatch) -> MetaLosses:
        theta, _ = self._adapt(batch.adaptation, samples=1)
        return MetaLosses({META_LOSS: query_loss(self, batch.network, theta, batch.tasks)})

    def adapt(self, adaptation: Adaptation) -> tuple[Float[Tensor, "S B D"], InnerState]:
        return self._adapt(adaptation, self.samples)

    def _adapt(self, adaptation: Adaptation, samples: int) -> tuple[Float[Tensor, "S B D"], InnerState]:
        network = adaptation.network
        noisy = bool(network.module.within([NOISE]))
        change = self.adapted.masked(network.module, adaptation.theta.device, lambda gradient: gradient)

        def gradient(point: Tensor, x: Tensor, y: Tensor, weight: Tensor) -> Tensor:
            at = point if self.order == 2 else point.detach()
            found = noisy_gradient(network, at, x, y, weight, samples) if noisy else network.gradient(at, x, y, weight)
            return change(found)

        return adapt_network(adaptation, gradient)

    def predict(
        self, network: Network, theta: Float[Tensor, "S B D"], tasks: Tasks, x: Shaped[Tensor, "S B q *shape"]
    ) -> Shaped[Tensor, "S B q *out"]:
        return network.outputs(theta[..., : network.d], x)


def noisy_gradient(
    network: Network,
    theta: Float[Tensor, "S B d"],
    x: Shaped[Tensor, "S B b *shape"],
    y: Shaped[Tensor, "S B b *target"],
    weight: Float[Tensor, "S B b"],
    samples: int,
) -> Float[Tensor, "S B d"]:
    """The gradient of each task under its own noise, averaged over the draws."""
    gradients = []
    for one in zip(*(part.flatten(0, 1)[:, None, None] for part in (theta, x, y, weight)), strict=True):
        draws = [network.with_arguments(seed).gradient(*one) for seed in noise_seeds(one[1], samples)]
        gradients.append(torch.stack(draws).mean(0))
    return torch.cat(gradients).view(theta.shape)


def noise_seeds(x: Shaped[Tensor, "1 1 b *shape"], count: int) -> list[int]:
    """Seeds for the noise of a mini-batch, determined by its samples and their order."""
    seed = int.from_bytes(sha256(x.cpu().numpy().tobytes()).digest()[:8], "big")
    return [int(generator_at(seed, "noise", number).integers(2**63)) for number in range(count)]
