"""The paper's own way: the whole network, adapted from a meta-learnt initialisation. Its features are pixels."""

import math
from dataclasses import dataclass, field, replace
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from eigen_reptile.errors import ConfigError
from eigen_reptile.inner import InnerState
from eigen_reptile.methods import Ispl, MetaBatch
from eigen_reptile.methods.wrappers.sample_selection import SampleSelector
from eigen_reptile.nn import Network
from eigen_reptile.practice.heads.head import FittedHead, Head, Support
from eigen_reptile.runtime.rng import generator_at
from eigen_reptile.tasks import Batches, Tasks, draw_batches, take_samples
from eigen_reptile.training.evaluate import Initialisation, adapt_in_stages
from eigen_reptile.training.head import check_new_head, with_new_head
from eigen_reptile.training.query_batches import predict_inductively
from eigen_reptile.training.setup import Setup, build_network

INTROSPECTION = Ispl(extra_batches=0)
"""Every sample is a candidate once, and is judged by a prior model that was fitted to the other half of the support."""


@final
@dataclass(frozen=True, eq=False)
class AdaptedNetwork(Head):
    """Chen et al. 2022, https://arxiv.org/abs/2206.01944: the network of a finished run, adapted to the support from
    its meta-learnt initialisation as the run's own evaluation does it, with or without selecting samples of it.

    Use it if a run was meta-trained on classes like yours, and pictures are unlike those of a pretrained backbone. If
    the evaluation takes mini-batches, the order of the samples decides which ones they share.
    """

    setup: Setup = field(repr=False)
    theta: Float[Tensor, "1 D"] = field(repr=False)
    """What one replica of the run has learnt."""
    inner_state: InnerState = field(repr=False)
    seed: int = 0
    """Seed of a last layer for another number of classes, and of the mini-batches."""
    selector: SampleSelector | None = None
    """Selects samples of the support, such as `INTROSPECTION`; None: all are learnt from."""

    def __post_init__(self) -> None:
        if not self.setup.exp.data.is_classification:
            raise ConfigError("the run has learnt no classes, so its network cannot be adapted to them")

    def fit(self, support: Support) -> "FittedNetwork":
        network, initialisation = self._for_way(support.way)
        tasks = self._tasks(support)
        config = self.setup.exp.evaluation
        m, steps = support.x.shape[1], config.inner_steps[-1]
        size = m if config.batch is None else min(config.batch, m)
        batches = self._batches(tasks, steps, size)
        if self.selector is not None:
            batches = self._selected(self.selector, network, initialisation, tasks, batches)
        with torch.no_grad():
            theta = next(adapt_in_stages(network, initialisation, tasks, batches, (steps,)))
        return FittedNetwork(network, initialisation, theta, tasks)

    def _for_way(self, way: int) -> tuple[Network, Initialisation]:
        """The network and its initialisation for this number of classes."""
        exp, network = self.setup.exp, self.setup.network
        theta, state = self.theta, self.inner_state
        if exp.method.requirements.inner_loop and way != exp.task.way:
            new = build_network(exp, self.setup.banks.train.shape, self.setup.device, way, None)
            check_new_head(network.module, new.module)
            theta, state = with_new_head(network.module, new.module, theta, state, [self.seed])
            network = new
        return network, Initialisation(theta, state, exp.inner, exp.method)

    def _tasks(self, support: Support) -> Tasks:
        """The support as tasks of one replica, without queries; ConfigError if its features are not pixels."""
        shape = self.setup.banks.train.shape
        if support.x.shape[-1] != math.prod(shape):
            raise ConfigError(
                f"the network takes images of shape {tuple(shape)}, not {support.x.shape[-1]} features: `backbone` "
                "must be `Pixels` of this size and mode"
            )
        x = support.x.unflatten(-1, shape)[None].to(self.theta)
        y = support.y[None].to(self.theta.device)
        classes = torch.arange(support.way, device=y.device).expand(1, len(support.y), -1)
        return Tasks(x, y, x[:, :, :0], y[:, :, :0], torch.ones_like(y, dtype=torch.bool), classes)

    def _batches(self, tasks: Tasks, steps: int, size: int) -> Batches:
        """Mini-batches; all tasks draw with the same random numbers, so that none depends on the others."""
        by_task = Tasks(*(part.transpose(0, 1) for part in tasks))
        rngs = [generator_at(self.seed, "batches") for _ in range(tasks.x.shape[1])]
        return Batches(*(part.transpose(0, 1) for part in draw_batches(by_task, steps, size, rngs)))

    def _selected(
        self, selector: SampleSelector, network: Network, initialisation: Initialisation, tasks: Tasks, batches: Batches
    ) -> Batches:
        """As many mini-batches, of selected samples only, in turn. Candidates come in batches of one for each class."""
        way, m = tasks.classes.shape[-1], tasks.x.shape[2]
        inner = replace(initialisation.inner, steps=-(-m // way), batch=way)
        candidates = self._batches(tasks, selector.batches_to_draw(inner), way)
        step = torch.zeros((), dtype=torch.long, device=tasks.x.device)
        theta, state = initialisation.theta, initialisation.inner_state
        with torch.no_grad():
            found = selector.select(MetaBatch(network, theta, state, tasks, candidates, inner, step)).batches
        samples = Batches(*(part.flatten(2, 3) for part in found))
        steps, size = batches.chosen.shape[2:]
        turns = (torch.arange(steps * size, device=tasks.x.device) % samples.chosen.shape[2]).expand(
            1, tasks.x.shape[1], -1
        )
        return Batches(*(take_samples(part, turns).unflatten(2, (steps, size)) for part in samples))


@final
@dataclass(frozen=True, eq=False)
class FittedNetwork(FittedHead):
    """A network adapted to each task. Each query shares a batch with the support only, so none influences another."""

    network: Network
    initialisation: Initialisation
    theta: Float[Tensor, "1 T D"]
    tasks: Tasks

    def logits(self, x: Float[Tensor, "T q F"]) -> Float[Tensor, "T q way"]:
        queries = x.unflatten(-1, self.tasks.x.shape[3:])[None].to(self.tasks.x)
        with torch.no_grad():
            tasks = self.tasks._replace(query_x=queries)
            return predict_inductively(self.network, self.initialisation.method, self.theta, tasks)[0]
