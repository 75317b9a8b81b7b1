"""Conv4 on images: convolutions, where arithmetic takes most of the time."""

from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from typing import final

import numpy as np
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.contenders import bare_passes, library_entry, matrix_product
from benchmarks.peers import higher_reptile, peer_contender, plain_reptile, torchopt_reptile
from benchmarks.timing import ContenderFactory, compare_speeds
from eigen_reptile.data import Banks, Dataset, ImageBank
from eigen_reptile.methods import METHODS
from eigen_reptile.nn import Conv4
from eigen_reptile.report.benchmark import BenchmarkTable
from eigen_reptile.runtime.progress import StartProgress
from eigen_reptile.training.config import Experiment
from eigen_reptile.training.presets import preset

SIZES = tuple((side, channels, filters) for filters in (32, 64) for side, channels in ((28, 1), (32, 3), (84, 3)))
"""Side and channels of the images, and filters of the network."""
PRODUCT_SIDE = 2048
PEERS = {"higher": higher_reptile, "torchopt": torchopt_reptile}


@final
@dataclass(frozen=True)
class RandomImages(Dataset):
    """Images of random pixels, for benchmarks."""

    side: int = 32
    channels: int = 3

    @property
    def is_classification(self) -> bool:
        return True

    @property
    def has_characters(self) -> bool:
        return False

    def load(self, start_progress: StartProgress) -> Banks:
        classes, each = 20, 40
        pixels = np.random.default_rng(0).integers(256, size=(classes * each, self.side, self.side, self.channels))
        bank = ImageBank(pixels.astype(np.uint8), [str(number) for number in range(classes)], [each] * classes)
        return Banks(bank, bank, bank)


def plain_conv4(side: int, channels: int, filters: int) -> nn.Module:
    """The same network from torch's own layers."""
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
    """Section 5.2's iteration: 5 tasks, 7 steps of 10 images. Each task starts with a fresh Adam, as for the peers."""
    exp = preset(RandomImages(side, channels), METHODS["reptile"])
    return replace(exp, model=Conv4(filters), inner=replace(exp.inner, carry="fresh"))


def conv4(repeats: int, start_progress: StartProgress) -> BenchmarkTable:
    """Outer iterations per second of Conv4 at several sizes, against plain PyTorch, other libraries and bare passes."""
    groups = {}
    for side, channels, filters in SIZES:
        exp, build = experiment(side, channels, filters), partial(plain_conv4, side, channels, filters)
        entries = {"plain PyTorch": ContenderFactory(partial(peer_contender, plain_reptile, exp, build))}
        for name, peer in PEERS.items():
            if find_spec(name):
                entries[name] = ContenderFactory(partial(peer_contender, peer, exp, build))
        for method in ("reptile", "eigen-reptile"):
            entries[method] = library_entry(replace(exp, method=METHODS[method]))
        bare = partial(plain_conv4, side, max(2, channels), filters)
        entries["bare passes"] = ContenderFactory(partial(bare_passes, exp, bare))
        # The number of iterations that have as many operations as one product.
        iterations = 2 * PRODUCT_SIDE**3 / operations_per_iteration(exp, build(), (channels, side, side))
        entries["matrix product"] = ContenderFactory(partial(matrix_product, PRODUCT_SIDE), iterations)
        groups[f"{side} x {side} x {channels}, {filters} filters"] = entries
    about = (
        "Outer iterations per second: 5 tasks, 7 steps of 10 images, Adam. Bare passes are only the forward and "
        "backward passes of the same mini-batches with torch's own operations, in the best memory layout; this "
        f"library compiles its passes, which is why it can be faster. The matrix product ({PRODUCT_SIDE} x "
        f"{PRODUCT_SIDE}) is the number of iterations per second if all of their convolutions and products ran as "
        "fast as that."
    )
    return compare_speeds("Conv4", about, groups, ("plain PyTorch", "bare passes", "reptile"), repeats, start_progress)


def operations_per_iteration(exp: Experiment, module: nn.Module, shape: tuple[int, ...]) -> int:
    """Floating-point operations in the convolutions and matrix products of one iteration on inputs of this shape."""
    assert exp.inner.batch is not None
    with FlopCounterMode(display=False) as counter:
        module(torch.rand(exp.inner.batch, *shape)).sum().backward()
    passes: int = exp.inner.steps * exp.meta.batch
    return passes * int(counter.get_total_flops())
