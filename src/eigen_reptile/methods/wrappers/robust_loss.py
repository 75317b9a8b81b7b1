"""A wrapper that replaces a method's loss by one on which wrong labels have less influence."""

from dataclasses import dataclass, replace
from typing import final

from jaxtyping import Float, Shaped
from torch import Tensor

from eigen_reptile.errors import ConfigError
from eigen_reptile.inner import InnerState
from eigen_reptile.methods.method import Adaptation, MetaBatch, MetaUpdate, Method, Requirements
from eigen_reptile.nn.losses import GeneralisedCrossEntropy
from eigen_reptile.nn.network import Network
from eigen_reptile.tasks import Tasks


@final
@dataclass(frozen=True)
class RobustLoss(Method):
    """Zhang and Sabuncu 2018, https://arxiv.org/abs/1805.07836: the generalised cross-entropy instead of -ln p.

    It is (1 - p^q) / q, where p is the probability of the label. The cheapest remedy against wrong labels: use it
    first.
    """

    method: Method
    """The wrapped method."""
    q: float = 0.7
    """From 0, where it would be the cross-entropy, to 1, where it is the absolute error."""

    def __post_init__(self) -> None:
        GeneralisedCrossEntropy(self.q)  # which checks q
        if self.method.requirements.distinct_samples:
            raise ConfigError(
                "a robust loss cannot wrap a method that selects samples: select samples for the robust method"
            )

    @property
    def requirements(self) -> Requirements:
        return replace(self.method.requirements, classification_only=True)

    def meta_update(self, batch: MetaBatch) -> MetaUpdate:
        return self.method.meta_update(batch._replace(network=self._robust(batch.network)))

    def adapt(self, adaptation: Adaptation) -> tuple[Float[Tensor, "S B D"], InnerState]:
        return self.method.adapt(adaptation._replace(network=self._robust(adaptation.network)))

    def predict(
        self, network: Network, theta: Float[Tensor, "S B D"], tasks: Tasks, x: Shaped[Tensor, "S B q *shape"]
    ) -> Shaped[Tensor, "S B q *out"]:
        return self.method.predict(self._robust(network), theta, tasks, x)

    def _robust(self, network: Network) -> Network:
        return network.with_loss(GeneralisedCrossEntropy(self.q))
