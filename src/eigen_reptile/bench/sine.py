"""The sine wave: small networks, where all that is around the arithmetic counts."""

from dataclasses import replace

from eigen_reptile.bench.contenders import library, other, plain_reptile
from eigen_reptile.bench.turns import Entry, Figures, race
from eigen_reptile.config import Experiment, MetaConfig
from eigen_reptile.methods import METHODS
from eigen_reptile.progress import Announce
from eigen_reptile.train import settle_machine


def sine(repeats: int, announce: Announce) -> Figures:
    """Seed-iterations per second on the sine wave: 5 tasks an iteration, and 25 seeds side by side."""
    settle_machine()
    groups = {}
    for title, batch, seeds in (("5 tasks an iteration", 5, 1), ("25 seeds, 1 task each", 1, 25)):
        one = Experiment(meta=MetaConfig(batch=batch, steps=1_000_000, lr=(0.1,)))
        groups[title] = {"plain PyTorch": Entry(other(plain_reptile, one, one.model.build((1,), 1)))}
        for method in ("reptile", "eigen-reptile"):
            ours = replace(one, method=METHODS[method], seeds=tuple(range(seeds)))
            groups[title][method] = Entry(library(ours), seeds)
    return race("sine wave", groups, ("plain PyTorch", "reptile"), repeats, announce)
