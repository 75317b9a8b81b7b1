"""Theorem 1: does noise in the gradients leave the main direction where it is?"""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from eigen_reptile.direction import main_direction
from eigen_reptile.progress import Announce
from eigen_reptile.streams import stream
from eigen_reptile.theory.study import Finding, Panel, Study, degrees, line

DRAWS = 100
LENGTH = 2.1
"""Steps times their rate, where the steps grow finer."""


@dataclass(frozen=True)
class Setting:
    """A path, and the noise on it."""

    steps: int = 7
    dimensions: int = 1000
    sigma: float = 0.5
    rate: float = 0.3
    where: Literal["gradients", "points"] = "gradients"
    """In gradients noise adds up along the path; on points each has its own, which is what the proof takes it for."""

    def finer(self, steps: int) -> "Setting":
        """As long a path in another number of steps."""
        return replace(self, steps=steps, rate=LENGTH / steps)


BASE = Setting()
ON_POINTS = replace(BASE, where="points")
SIGMAS = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
STEPS = (3, 7, 15, 31, 63, 127)
DIMENSIONS = (2, 10, 100, 1000, 10_000, 100_000)
PANELS: dict[tuple[str, str], dict[float, Setting]] = {
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


def gradient_noise(announce: Announce) -> Study:
    """Angles between directions with and without Gaussian noise in the gradients of a quadratic loss."""
    report = announce("theorem 1", sum(map(len, PANELS.values())))
    panels, findings, done = [], [], 0
    for (title, varied), settings in PANELS.items():
        found = []
        for setting in settings.values():
            found.append(angles(setting, DRAWS))
            done += 1
            report(done, {})
        main, ends = zip(*found, strict=True)
        x = list(settings)
        lines = [line("main direction (Eigen-Reptile)", x, main), line("start to end (Reptile)", x, ends)]
        panels.append(Panel(title, varied, "angle to the noiseless direction, degrees", lines, logarithmic=True))
        less = line(f"main direction's angle less Reptile's, by {varied}", x, list(np.array(main) - np.array(ends)))
        findings.append(
            Finding(f"Gradient noise turns the main direction less than Reptile's (theorem 1): {title}", less)
        )
    about = (
        f"Gradient descent on a quadratic loss, {BASE.steps} steps in {BASE.dimensions} dimensions unless they are "
        f"varied, with Gaussian noise of sigma = {BASE.sigma} times the root mean square of the first gradient in each "
        f"coordinate of each gradient; {DRAWS} draws, 95 % intervals. The theorem takes the covariance of the noise on "
        "the points for sigma squared times the identity, which leaves eigenvectors as they are. That needs noise that "
        "is independent from point to point, and many more points than dimensions. Noise in gradients adds up along "
        "the path; and a few points in many dimensions have a covariance with at most as many non-zero eigenvalues as "
        "there are steps, which turns the main direction. The last three pictures have the noise of the gradients' "
        "size on each point by itself; there, finer steps along as long a path bring the theorem's assumption closer."
    )
    return Study("Theorem 1: noise in the gradients", about, panels, findings)


def angles(setting: Setting, draws: int) -> tuple[np.ndarray, np.ndarray]:
    """Degrees between what is found with and without noise: of the main direction, and from start to end."""
    found = []
    for draw in range(draws):
        rng = stream(draw, "noise")
        start = torch.from_numpy(rng.standard_normal(setting.dimensions))
        noise = torch.from_numpy(rng.standard_normal((setting.steps, setting.dimensions)))
        clean, noisy = (path(setting, start, part) for part in (0 * noise, noise))
        main = [main_direction(W).vector for W in (clean, noisy)]
        found.append((degrees(*main), degrees(clean[-1] - clean[0], noisy[-1] - noisy[0])))
    main_angles, end_angles = np.array(found).T
    return main_angles, end_angles


def path(setting: Setting, start: Tensor, noise: Tensor) -> Tensor:
    """The points of gradient descent on a quadratic bowl, longer in some dimensions than in others."""
    curvature = torch.logspace(-1.5, 0, len(start), dtype=torch.float64)
    disturbances = setting.sigma * (curvature * start).square().mean().sqrt() * noise
    points = [start]
    for disturbance in disturbances:
        felt = disturbance if setting.where == "gradients" else torch.zeros_like(start)
        points.append(points[-1] - setting.rate * (curvature * points[-1] + felt))
    W = torch.stack(points)
    if setting.where == "points":
        W[1:] += disturbances
    return W
