"""The averages of section 5.1 against their formulas."""

import torch

from eigen_reptile.methods import AverageGradients, AverageWeights
from meta_batches import mean_direction, random_walks


def test_the_averages_of_one_trajectory() -> None:
    W = random_walks(6, replicas=1, tasks=1)
    points = W[0, 0]
    torch.testing.assert_close(mean_direction(AverageWeights(), W)[0], points[1:].mean(0) - points[0])
    torch.testing.assert_close(mean_direction(AverageGradients(), W)[0], (points[-1] - points[0]) / 7)
    unit = mean_direction(AverageGradients(unit=True), W)[0]
    steps = points[1:] - points[:-1]
    mean = (steps / steps.norm(dim=1, keepdim=True)).mean(0)
    torch.testing.assert_close(unit, (points[-1] - points[0]).norm() * mean / mean.norm())
