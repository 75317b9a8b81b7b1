"""Conv4 on pictures: convolutions, where the arithmetic counts."""

from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from typing import final

import numpy as np
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from eigen_reptile.bench.contenders import (
    bare_passes,
    higher_reptile,
    library_entry,
    matrix_product,
    other,
    plain_reptile,
    torchopt_reptile,
)
from eigen_reptile.bench.turns import Entry, Figures, race
from eigen_reptile.config import Experiment, standard
from eigen_reptile.data import Banks, Dataset, ImageBank
from eigen_reptile.methods import METHODS
from eigen_reptile.models import Conv4
from eigen_reptile.progress import Announce

SIZES = tuple((side, channels, filters) for filters in (32, 64) for side, channels in ((28, 1), (32, 3), (84, 3)))
"""Side, channels and filters."""
PRODUCT_SIDE = 2048
PEERS = {"higher": higher_reptile, "torchopt": torchopt_reptile}


@final
@dataclass(frozen=True)
class Noise(Dataset):
    """Random pictures, for benchmarks."""

    side: int = 32
    channels: int = 3

    @property
    def classifies(self) -> bool:
        return True

    def load(self, announce: Announce) -> Banks:
        classes, each = 20, 40
        pixels = np.random.default_rng(0).integers(256, size=(classes * each, self.side, self.side, self.channels))
        bank = ImageBank(pixels.astype(np.uint8), [str(number) for number in range(classes)], [each] * classes)
        return Banks(bank, bank, bank)


def plain_conv4(side: int, channels: int, filters: int) -> nn.Module:
    """The same network out of torch's own layers."""
    layers: list[nn.Module] = []
    for before in (channels, filters, filters, filters):
        layers += [
            nn.Conv2d(before, filters, 3, padding=1, bias=False),
            nn.BatchNorm2d(filters, eps=1e-3, track_running_stats=False),
            nn.MaxPool2d(2, ceil_mode=True),
            nn.ReLU(),
        ]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(filters * (-(-side // 16)) ** 2, 5))


def experiment(side: int, channels: int, filters: int) -> Experiment:
    """Section 5.2's iteration: 5 tasks, 7 steps of 10 pictures; Adam's memory fresh for each task, as peers have it."""
    exp = standard(Noise(side, channels), METHODS["reptile"])
    return replace(exp, model=Conv4(filters), inner=replace(exp.inner, carry="fresh"))


def conv4(repeats: int, announce: Announce) -> Figures:
    """Outer iterations per second of Conv4 at several sizes, against plain PyTorch, its peers and bare passes."""
    groups = {}
    for side, channels, filters in SIZES:
        exp, build = experiment(side, channels, filters), partial(plain_conv4, side, channels, filters)
        entries = {"plain PyTorch": Entry(partial(other, plain_reptile, exp, build))}
        for name, peer in PEERS.items():
            if find_spec(name):
                entries[name] = Entry(partial(other, peer, exp, build))
        for method in ("reptile", "eigen-reptile"):
            entries[method] = library_entry(replace(exp, method=METHODS[method]))
        bare = partial(plain_conv4, side, max(2, channels), filters)
        entries["bare passes"] = Entry(partial(bare_passes, exp, bare))
        # So many iterations would have as much arithmetic as one product.
        product = 2 * PRODUCT_SIDE**3 / arithmetic(exp, build(), (channels, side, side))
        entries["matrix product"] = Entry(partial(matrix_product, PRODUCT_SIDE), product)
        groups[f"{side} x {side} x {channels}, {filters} filters"] = entries
    about = (
        "Outer iterations per second: 5 tasks, 7 steps of 10 pictures, Adam. Bare passes are the forward and backward "
        "passes of the same mini-batches by torch's own operations, in the best layout, with nothing around them; this "
        "library's own are compiled, which is why it can be faster. The matrix product is a large "
        f"one ({PRODUCT_SIDE} x {PRODUCT_SIDE}): how many iterations would be done if all of their convolutions and "
        "products were as fast."
    )
    return race("Conv4", about, groups, ("plain PyTorch", "bare passes", "reptile"), repeats, announce)


def arithmetic(exp: Experiment, module: nn.Module, shape: tuple[int, ...]) -> int:
    """Floating-point operations in the convolutions and products of one iteration on inputs of this shape."""
    with FlopCounterMode(display=False) as counter:
        module(torch.rand(exp.inner.batch, *shape)).sum().backward()
    passes: int = exp.inner.steps * exp.meta.batch
    return passes * int(counter.get_total_flops())
