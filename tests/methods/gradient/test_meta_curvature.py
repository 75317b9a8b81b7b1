"""Meta-curvature: the learnt maps against a slow sum."""

import numpy as np
import torch
from torch import nn

from eigen_reptile.methods import MetaCurvature
from eigen_reptile.nn import FlatModule


def test_the_maps_against_a_slow_sum() -> None:
    rng = np.random.default_rng(0)
    module = FlatModule(lambda: nn.Conv2d(2, 3, (2, 1)))
    transform = MetaCurvature()
    initial = transform.init(module, 0)
    assert len(initial) == 3**2 + 2**2 + 2**2 + 3
    kernel = rng.normal(size=(3, 2, 2))  # out, in, positions
    out, within, positions, bias = (rng.normal(size=shape) for shape in ((3, 3), (2, 2), (2, 2), (3,)))
    slow = np.zeros_like(kernel)
    for o, i, p in np.ndindex(*kernel.shape):
        for a, b, c in np.ndindex(*kernel.shape):
            slow[o, i, p] += out[o, a] * within[i, b] * positions[p, c] * kernel[a, b, c]
    drawn = torch.from_numpy(np.concatenate([part.ravel() for part in (out, within, positions, bias)]))
    gradient = torch.from_numpy(np.concatenate([kernel.ravel(), [1.0, 2.0, 3.0]]))
    found = transform.bind(module, drawn[None, None])(gradient[None, None])[0, 0]
    np.testing.assert_allclose(found[:-3].numpy(), slow.ravel())
    np.testing.assert_allclose(found[-3:].numpy(), bias * [1, 2, 3])
    same = transform.bind(module, initial.double()[None, None])(gradient[None, None])[0, 0]
    torch.testing.assert_close(same, gradient)
