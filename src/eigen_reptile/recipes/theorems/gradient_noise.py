"""Theorem 1: does the main direction stay the same under noise in the gradients?"""

from dataclasses import dataclass, replace
from typing import Literal, final

import numpy as np
import torch
from torch import Tensor

from eigen_reptile.direction import main_direction
from eigen_reptile.recipes.study import Finding, Panel, Study, angle_in_degrees, mean_line
from eigen_reptile.runtime.progress import StartProgress
from eigen_reptile.runtime.rng import generator_at

DRAWS = 100
LENGTH = 2.1
"""Number of steps times learning rate, which is constant where the steps are made finer."""


@final
@dataclass(frozen=True)
class NoisyDescent:
    """A trajectory of gradient descent, and the noise on it."""

    steps: int = 7
    dimensions: int = 1000
    sigma: float = 0.5
    rate: float = 0.3
    where: Literal["gradients", "points"] = "gradients"
    """Noise in gradients accumulates along the trajectory; noise on points is independent, as the proof assumes."""

    def finer(self, steps: int) -> "NoisyDescent":
        """The same length of trajectory in another number of steps."""
        return replace(self, steps=steps, rate=LENGTH / steps)


BASE = NoisyDescent()
ON_POINTS = replace(BASE, where="points")
SIGMAS = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
STEPS = (3, 7, 15, 31, 63, 127)
DIMENSIONS = (2, 10, 100, 1000, 10_000, 100_000)
PANELS: dict[tuple[str, str], dict[float, NoisyDescent]] = {
    ("more noise", "sigma"): {sigma: replace(BASE, sigma=sigma) for sigma in SIGMAS},
    ("more steps", "steps"): {steps: replace(BASE, steps=steps) for steps in STEPS[:-1]},
    ("more dimensions", "dimensions"): {size: replace(BASE, dimensions=size) for size in DIMENSIONS},
    ("more steps in 3 dimensions", "steps"): {steps: replace(BASE, steps=steps, dimensions=3) for steps in STEPS},
    ("more noise, on the points", "sigma"): {sigma: replace(ON_POINTS, sigma=sigma) for sigma in SIGMAS},
    ("finer steps, noise on the points", "steps"): {steps: ON_POINTS.finer(steps) for steps in STEPS},
    ("finer steps in 3 dimensions, noise on the points", "steps"): {
        steps: replace(ON_POINTS, dimensions=3).finer(steps) for steps in STEPS
    },
}


def gradient_noise(start_progress: StartProgress) -> Study:
    """Angles between directions with and without Gaussian noise in the gradients of a quadratic loss."""
    report = start_progress("theorem 1", sum(map(len, PANELS.values())))
    panels, findings, done = [], [], 0
    for (title, varied), settings in PANELS.items():
        measured = []
        for setting in settings.values():
            measured.append(direction_angles(setting, DRAWS))
            done += 1
            report(done, {})
        main, ends = zip(*measured, strict=True)
        x = list(settings)
        lines = [mean_line("main direction (Eigen-Reptile)", x, main), mean_line("start to end (Reptile)", x, ends)]
        panels.append(Panel(title, varied, "angle to the noiseless direction, degrees", lines, logarithmic=True))
        difference = mean_line(
            f"angle of the main direction minus Reptile's, by {varied}", x, list(np.array(main) - np.array(ends))
        )
        claim = f"Gradient noise rotates the main direction less than Reptile's (theorem 1): {title}"
        findings.append(Finding(claim, difference))
    about = (
        f"Gradient descent on a quadratic loss, {BASE.steps} steps in {BASE.dimensions} dimensions unless they are "
        f"varied. Each coordinate of each gradient has Gaussian noise of sigma = {BASE.sigma} times the root mean "
        f"square of the first gradient; {DRAWS} draws, 95 % intervals. The theorem assumes that the covariance of the "
        "noise on the points is sigma squared times the identity, which does not change eigenvectors. That requires "
        "noise that is independent from point to point, and many more points than dimensions. Noise in gradients "
        "accumulates along the trajectory; and the covariance of a few points in many dimensions has at most as many "
        "non-zero eigenvalues as there are steps, which rotates the main direction. In the last three plots, "
        "independent noise of the same size is on each point; there, finer steps along a trajectory of the same "
        "length approach the assumption."
    )
    return Study("Theorem 1: noise in the gradients", about, panels, findings)


def direction_angles(setting: NoisyDescent, draws: int) -> tuple[np.ndarray, np.ndarray]:
    """Angles in degrees between noisy and noiseless directions: the main direction, and the one from start to end."""
    per_draw = []
    for draw in range(draws):
        rng = generator_at(draw, "noise")
        start = torch.from_numpy(rng.standard_normal(setting.dimensions))
        noise = torch.from_numpy(rng.standard_normal((setting.steps, setting.dimensions)))
        clean, noisy = (quadratic_trajectory(setting, start, part) for part in (0 * noise, noise))
        main = [main_direction(W).vector for W in (clean, noisy)]
        per_draw.append((angle_in_degrees(*main), angle_in_degrees(clean[-1] - clean[0], noisy[-1] - noisy[0])))
    main_angles, end_angles = np.array(per_draw).T
    return main_angles, end_angles


def quadratic_trajectory(setting: NoisyDescent, start: Tensor, noise: Tensor) -> Tensor:
    """The points of gradient descent on a quadratic loss whose curvature differs between dimensions."""
    curvature = torch.logspace(-1.5, 0, len(start), dtype=torch.float64)
    disturbances = setting.sigma * (curvature * start).square().mean().sqrt() * noise
    points = [start]
    for disturbance in disturbances:
        in_gradient = disturbance if setting.where == "gradients" else torch.zeros_like(start)
        points.append(points[-1] - setting.rate * (curvature * points[-1] + in_gradient))
    W = torch.stack(points)
    if setting.where == "points":
        W[1:] += disturbances
    return W
