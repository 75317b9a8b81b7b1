"""Evaluation on tasks with another number of classes than in training: the same network with a new last layer.

The new last layer is the one that a fresh network with that many outputs has under the replica's seed. All other
parameters are the trained ones. If the inner optimiser shares its state between tasks, the squared gradients of the new
layer start at the average over the old layer's outputs.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from eigen_reptile.errors import ConfigError
from eigen_reptile.inner import InnerState
from eigen_reptile.nn import FlatModule


def check_new_head(old: FlatModule, new: FlatModule) -> None:
    """ConfigError unless the two modules differ only in the number of outputs of their last layer."""
    bodies = [{name: shape for name, shape in one.shapes.items() if name not in one.head} for one in (old, new)]
    heads = [{name: one.shapes[name][1:] for name in one.head} for one in (old, new)]
    if bodies[0] != bodies[1] or heads[0] != heads[1]:
        raise ConfigError(
            "`evaluation.way` must be the way of training: another one changes more than the last layer of this model"
        )


def with_new_head(
    old: FlatModule, new: FlatModule, theta: Float[Tensor, "S old"], state: InnerState, seeds: Sequence[int]
) -> tuple[Float[Tensor, "S new"], InnerState]:
    """Trained parameters and the state of the inner optimiser, with a new last layer for each replica's seed."""
    fresh = torch.stack([new.init(seed) for seed in seeds]).to(theta)
    square = _combine(old, new, state.square, _averaged_over_outputs(old, new, state.square))
    return _combine(old, new, theta, fresh), state._replace(square=square)


def _combine(
    old: FlatModule, new: FlatModule, body: Float[Tensor, "S old"], head: Float[Tensor, "S new"]
) -> Float[Tensor, "S new"]:
    """The last layer from `head`, all other parameters from `body`."""
    kept, fresh = _split_by_parameter(old, body), _split_by_parameter(new, head)
    return torch.cat([fresh[name] if name in new.head else kept[name] for name in new.shapes], dim=-1)


def _averaged_over_outputs(old: FlatModule, new: FlatModule, values: Float[Tensor, "S old"]) -> Float[Tensor, "S new"]:
    """For each output of the new last layer the average over those of the old one; zero for all other parameters."""
    pieces = _split_by_parameter(old, values)
    parts = [
        pieces[name].unflatten(-1, old.shapes[name]).mean(1, keepdim=True).expand(-1, *shape).flatten(1)
        if name in new.head
        else values.new_zeros(len(values), shape.numel())
        for name, shape in new.shapes.items()
    ]
    return torch.cat(parts, dim=-1)


def _split_by_parameter(module: FlatModule, vectors: Float[Tensor, "S d"]) -> dict[str, Tensor]:
    return dict(zip(module.shapes, vectors.split(module.sizes, dim=-1), strict=True))
