"""Theorem 1: does noise in the gradients leave the main direction where it is?"""

import math

import numpy as np
import torch
from torch import Tensor

from eigen_reptile.direction import main_direction
from eigen_reptile.progress import Announce
from eigen_reptile.streams import stream
from eigen_reptile.theory.study import Panel, Study, line

STEPS, DIMENSIONS, SIGMA, DRAWS = 7, 1000, 0.5, 100
RATE = 0.3
PANELS = {
    "more noise": ("sigma", (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)),
    "more steps": ("steps", (3.0, 7.0, 15.0, 31.0, 63.0)),
    "more dimensions": ("dimensions", (2.0, 10.0, 100.0, 1000.0, 10_000.0, 100_000.0)),
    "more steps in 3 dimensions": ("steps", (3.0, 7.0, 15.0, 31.0, 63.0, 127.0)),
}


def gradient_noise(announce: Announce) -> Study:
    """Angles between directions with and without Gaussian noise in the gradients of a quadratic loss."""
    report = announce("theorem 1", sum(len(values) for _, values in PANELS.values()))
    panels, done = [], 0
    for title, (varied, values) in PANELS.items():
        found = []
        for value in values:
            settings: dict[str, float] = {"steps": STEPS, "dimensions": DIMENSIONS, "sigma": SIGMA}
            if title.endswith("3 dimensions"):
                settings["dimensions"] = 3
            settings[varied] = value
            found.append(angles(int(settings["steps"]), int(settings["dimensions"]), settings["sigma"], DRAWS))
            done += 1
            report(done, {})
        names = ("main direction (Eigen-Reptile)", "start to end (Reptile)")
        lines = [line(name, values, [pair[number] for pair in found]) for number, name in enumerate(names)]
        panels.append(Panel(title, varied, "angle to the noiseless direction, degrees", lines, logarithmic=True))
    about = (
        f"Gradient descent on a quadratic loss, {STEPS} steps in {DIMENSIONS} dimensions unless they are varied, with "
        f"Gaussian noise of sigma = {SIGMA} times the root mean square of the first gradient in each coordinate of "
        f"each gradient; {DRAWS} draws, 95 % intervals. The theorem takes the noise's covariance for sigma squared "
        "times the identity, which leaves eigenvectors as they are. A few points in many dimensions have no such "
        "covariance: theirs has at most as many non-zero eigenvalues as there are steps, and turns the main direction."
    )
    return Study("Theorem 1: noise in the gradients", about, panels)


def angles(steps: int, dimensions: int, sigma: float, draws: int) -> tuple[np.ndarray, np.ndarray]:
    """Degrees between what is found with and without noise: of the main direction, and from start to end."""
    found = []
    for draw in range(draws):
        rng = stream(draw, "noise")
        start = torch.from_numpy(rng.standard_normal(dimensions))
        noise = torch.from_numpy(rng.standard_normal((steps, dimensions)))
        clean, noisy = (descent(start, sigma * part) for part in (0 * noise, noise))
        main = [main_direction(W).vector for W in (clean, noisy)]
        found.append((_degrees(*main), _degrees(clean[-1] - clean[0], noisy[-1] - noisy[0])))
    main_angles, end_angles = np.array(found).T
    return main_angles, end_angles


def descent(start: Tensor, noise: Tensor) -> Tensor:
    """The points of gradient descent on a quadratic bowl, longer in some dimensions than in others."""
    curvature = torch.logspace(-1.5, 0, len(start), dtype=torch.float64)
    unit = (curvature * start).square().mean().sqrt()
    points = [start]
    for disturbance in noise:
        points.append(points[-1] - RATE * (curvature * points[-1] + unit * disturbance))
    return torch.stack(points)


def _degrees(first: Tensor, second: Tensor) -> float:
    cosine = float(first @ second / (first.norm() * second.norm()))
    return math.degrees(math.acos(min(1.0, max(-1.0, cosine))))
