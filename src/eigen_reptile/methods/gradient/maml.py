"""MAML, composed of an inner loop, a gradient transform and a meta-objective."""

from dataclasses import dataclass, replace
from typing import Literal, final

from jaxtyping import Float, Shaped
from torch import Tensor

from eigen_reptile.inner import InnerState
from eigen_reptile.methods.gradient.adapted_parameters import AdaptedParameters, adapt_network
from eigen_reptile.methods.gradient.gradient_method import GradientMethod, MetaLosses
from eigen_reptile.methods.gradient.gradient_transform import GradientTransform, NoTransform
from eigen_reptile.methods.gradient.objective import Objective, QueryLoss
from eigen_reptile.methods.method import Adaptation, MetaBatch, Requirements, TaskSpec
from eigen_reptile.nn.network import Network
from eigen_reptile.tasks import Tasks


@final
@dataclass(frozen=True)
class Maml(GradientMethod):
    """Finn, Abbeel and Levine 2017, https://arxiv.org/abs/1703.03400: minimise the query loss after adaptation.

    The gradient goes through the adaptation. Use it when tasks have query samples and there is time for second
    derivatives; `order=1` (FOMAML) is cheaper. Its variants replace one part: what is adapted (ANIL, BOIL, Warp-MAML),
    the gradient transform (meta-curvature, sparse-MAML) or the objective (TAML, Warp-MAML).
    """

    order: Literal[1, 2] = 2
    """2: the meta-gradient goes through the inner gradients. 1: it treats them as constants (FOMAML)."""
    adapted: AdaptedParameters = AdaptedParameters()
    """What the inner loop changes."""
    transform: GradientTransform = NoTransform()
    """What is done to the inner gradients."""
    objective: Objective = QueryLoss()
    """The meta-loss."""

    @property
    def requirements(self) -> Requirements:
        return replace(self.objective.requirements, extra_parameters=self._initial_transform)

    def _initial_transform(self, network: Network, seed: int, spec: TaskSpec) -> Float[Tensor, "E"]:
        return self.transform.init(network.module, seed)

    def meta_losses(self, batch: MetaBatch) -> MetaLosses:
        return self.objective.meta_losses(self, batch)

    def adapt(self, adaptation: Adaptation) -> tuple[Float[Tensor, "S B D"], InnerState]:
        network, module = adaptation.network, adaptation.network.module
        transform = self.transform.bind(module, adaptation.extra)
        change = self.adapted.masked(module, adaptation.theta.device, transform)

        def gradient(point: Tensor, x: Tensor, y: Tensor, weight: Tensor) -> Tensor:
            return change(network.gradient(point if self.order == 2 else point.detach(), x, y, weight))

        return adapt_network(adaptation, gradient)

    def predict(
        self, network: Network, theta: Float[Tensor, "S B D"], tasks: Tasks, x: Shaped[Tensor, "S B q *shape"]
    ) -> Shaped[Tensor, "S B q *out"]:
        return network.outputs(theta[..., : network.d], x)
