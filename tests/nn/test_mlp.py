"""The fully connected network against NumPy."""

import numpy as np
import pytest
from torch import nn

from eigen_reptile.nn import Mlp
from samples import normal


@pytest.mark.parametrize("shape", [(6,), (2, 3)], ids=str)
def test_layers_of_tanh_against_numpy(shape: tuple[int, ...]) -> None:
    module = Mlp((5, 4)).build(shape, 3).double()
    nn.utils.vector_to_parameters(normal(6 * 5 + 5 + 5 * 4 + 4 + 4 * 3 + 3), module.parameters())
    x = normal(7, *shape)
    values = [parameter.detach().numpy() for parameter in module.parameters()]
    expected = x.numpy().reshape(7, 6)
    for layer in range(3):
        expected = expected @ values[2 * layer].T + values[2 * layer + 1]
        expected = np.tanh(expected) if layer < 2 else expected
    np.testing.assert_allclose(module(x).detach().numpy(), expected, rtol=1e-12)


def test_widths_must_be_positive() -> None:
    with pytest.raises(ValueError, match=r"`model.hidden` must hold widths of at least 1, not \(5, 0\)"):
        Mlp((5, 0))
