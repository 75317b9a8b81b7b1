"""A curve fitted to points from meta-learnt initialisations, and the path of the parameters, step by step."""

import math
from typing import NamedTuple, get_args

import torch
from jaxtyping import Float
from torch import Tensor

from eigen_reptile.demo.protocol import Fit, Regression
from eigen_reptile.demo.replies import Curves, Fitted, Spectrum
from eigen_reptile.demo.shipped import start_of_sine
from eigen_reptile.inner import trajectory
from eigen_reptile.runtime.rng import generator_at
from eigen_reptile.tasks import Tasks, draw_batches

STEPS = 32
"""As in the paper's first figure."""
GRID = torch.linspace(-5, 5, 101)
"""Abscissas at which curves are drawn: the interval of the training."""
SEED = 0


class Plane(NamedTuple):
    """Points projected onto the plane of their two largest eigenvectors."""

    path: Float[Tensor, "rows 2"]
    spectrum: Spectrum


def fit_curves(request: Fit) -> Curves:
    return Curves(x=GRID.tolist(), methods={name: _fitted(request, name) for name in get_args(Regression)})


@torch.no_grad()
def _fitted(request: Fit, name: Regression) -> Fitted:
    start = start_of_sine(name)
    initialisation, network = start.initialisation, start.network
    x, y = (torch.tensor(part, dtype=torch.float32)[None, None, :, None] for part in zip(*request.points, strict=True))
    tasks = Tasks(
        x,
        y,
        x[:, :, :0],
        y[:, :, :0],
        torch.ones(x.shape[:3], dtype=torch.bool),
        torch.zeros(1, 1, 1, dtype=torch.long),
    )
    batches = draw_batches(tasks, STEPS, None, [generator_at(SEED, "batches")])
    theta = initialisation.theta[:, None]
    state = initialisation.inner_state.carried(initialisation.inner).for_tasks(1)
    W = trajectory(network.gradient, theta, state, x, batches, initialisation.inner)[0][0, 0]
    curves = network.outputs(W[None], GRID[:, None].expand(1, len(W), -1, -1))[0, ..., 0]
    errors = (network.outputs(W[None], x[:, 0].expand(1, len(W), -1, -1))[0] - y[0]).square().mean((1, 2))
    plane, walk = principal_plane(W), principal_plane(random_walk(*W.shape))
    return Fitted(
        curves=curves.tolist(),
        errors=errors.tolist(),
        path=[*map(tuple, plane.path.tolist())],
        spectrum=plane.spectrum,
        walk=[*map(tuple, walk.path.tolist())],
        walk_spectrum=walk.spectrum,
    )


def random_walk(rows: int, d: int) -> Float[Tensor, "rows d"]:
    """As many points, each a step of independent normal numbers from the one before."""
    steps = torch.randn(rows - 1, d, generator=torch.Generator().manual_seed(SEED)) / math.sqrt(d)
    return torch.cat([torch.zeros(1, d), steps.cumsum(0)])


def principal_plane(W: Float[Tensor, "rows d"]) -> Plane:
    """The points in the plane of their two largest eigenvectors, from the Gram matrix of the centred rows (eq. 7).

    The first axis is the main direction, with the sign with which the points travel along it.
    """
    away = (W - W.mean(0)).double()
    values, vectors = torch.linalg.eigh(away @ away.mT)
    path = vectors[:, [-1, -2]] * values[[-1, -2]].clamp(min=0).sqrt()
    path = path * torch.where(path[-1] < path[0], -1.0, 1.0)
    first, second = (values[[-1, -2]] / values.sum().clamp(min=torch.finfo(torch.float64).tiny)).tolist()
    return Plane(path, Spectrum(first=first, second=second))
