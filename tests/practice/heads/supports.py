"""Support sets for tests of heads."""

import numpy as np
import torch

from eigen_reptile.practice.heads import Support


def clusters(way: int, shots: int, features: int, seed: int, spread: float = 0.4, tasks: int = 1) -> Support:
    """Samples around a random centre for each class of each task, all labels right."""
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(way), shots)
    x = rng.normal(size=(tasks, way, features))[:, y] + spread * rng.normal(size=(tasks, way * shots, features))
    return Support(torch.tensor(x), torch.tensor(y).repeat(tasks, 1), way)


def with_wrong_labels(support: Support, wrong: int) -> Support:
    """The first `wrong` samples of each class with the label of the next class."""
    y = support.y.view(len(support.y), support.way, -1).clone()
    y[:, :, :wrong] = (y[:, :, :wrong] + 1) % support.way
    return support._replace(y=y.flatten(1))
