"""Conv4 on pictures: convolutions, where the arithmetic counts."""

import copy
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import final

import numpy as np
from torch import nn

from eigen_reptile.bench.contenders import bare_passes, higher_reptile, library, other, plain_reptile, torchopt_reptile
from eigen_reptile.bench.turns import Entry, Figures, race
from eigen_reptile.config import Experiment, standard
from eigen_reptile.data import Banks, Dataset, ImageBank
from eigen_reptile.learner import Conv4
from eigen_reptile.methods import METHODS
from eigen_reptile.progress import Announce
from eigen_reptile.train import settle_machine

SIZES = ((28, 1, 32), (32, 3, 32), (84, 3, 32), (32, 3, 64))
"""Side, channels and filters."""
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
    settle_machine()
    groups = {}
    for side, channels, filters in SIZES:
        exp = experiment(side, channels, filters)
        module = plain_conv4(side, channels, filters)
        entries = {"plain PyTorch": Entry(other(plain_reptile, exp, copy.deepcopy(module)))}
        for name, peer in PEERS.items():
            if find_spec(name):
                entries[name] = Entry(other(peer, exp, copy.deepcopy(module)))
        for method in ("reptile", "eigen-reptile"):
            entries[method] = Entry(library(replace(exp, method=METHODS[method])))
        entries["bare passes"] = Entry(bare_passes(exp, module))
        groups[f"{side} x {side} x {channels}, {filters} filters"] = entries
    return race("Conv4", groups, ("plain PyTorch", "bare passes", "reptile"), repeats, announce)
