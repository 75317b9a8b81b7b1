"""Tasks of two clusters with wrong labels, for the tests of selectors."""

import numpy as np
import torch
from torch import nn

from eigen_reptile.inner import InnerConfig, InnerState
from eigen_reptile.methods import MetaBatch, SampleSelector
from eigen_reptile.methods.wrappers.sample_selection import Selection
from eigen_reptile.nn import CrossEntropy, FlatModule, Network
from eigen_reptile.tasks import Tasks, draw_batches

WAY, SAMPLES = 2, 150
INNER = InnerConfig(steps=7, batch=10, lr=0.1)
NETWORK = Network(FlatModule(lambda: nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, WAY))), CrossEntropy())


def clusters(wrong: float, seed: int) -> Tasks:
    """One task: two clusters far apart, with a fraction of wrong labels."""
    generator = torch.Generator().manual_seed(seed)
    true = torch.arange(SAMPLES) % WAY
    x = 8 * nn.functional.one_hot(true, 8) + torch.randn(SAMPLES, 8, generator=generator)
    flip = torch.rand(SAMPLES, generator=generator) < wrong
    parts = (x, torch.where(flip, 1 - true, true), x[:0], true[:0], ~flip, torch.arange(WAY))
    return Tasks(*(part[None, None] for part in parts))


def batch_of_clusters(
    selector: SampleSelector, tasks: Tasks, seed: int, step: int = 0, inner: InnerConfig = INNER
) -> MetaBatch:
    theta = NETWORK.module.init(seed)[None]
    batches = draw_batches(tasks, selector.batches_to_draw(inner), inner.batch, [np.random.default_rng(seed)])
    return MetaBatch(NETWORK, theta, InnerState.empty(theta), tasks, batches, inner, torch.tensor(step))


@torch.no_grad()
def selected(selector: SampleSelector, tasks: Tasks, seed: int, step: int = 0, inner: InnerConfig = INNER) -> Selection:
    return selector.select(batch_of_clusters(selector, tasks, seed, step, inner))
