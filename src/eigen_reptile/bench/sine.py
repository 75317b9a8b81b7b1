"""The sine wave: small networks, where all that is around the arithmetic counts."""

from dataclasses import replace
from functools import partial

from eigen_reptile.bench.contenders import library, other, plain_reptile
from eigen_reptile.bench.turns import Entry, Figures, race
from eigen_reptile.config import Experiment, MetaConfig
from eigen_reptile.methods import METHODS
from eigen_reptile.progress import Announce


def sine(repeats: int, announce: Announce) -> Figures:
    """Seed-iterations per second on the sine wave: 5 tasks an iteration, and 25 seeds side by side."""
    groups = {}
    for title, batch, seeds in (("5 tasks an iteration", 5, 1), ("25 seeds, 1 task each", 1, 25)):
        one = Experiment(meta=MetaConfig(batch=batch, steps=1_000_000, lr=(0.1,)))
        build = partial(one.model.build, (1,), 1)
        groups[title] = {"plain PyTorch": Entry(partial(other, plain_reptile, one, build))}
        for method in ("reptile", "eigen-reptile"):
            ours = replace(one, method=METHODS[method], seeds=tuple(range(seeds)))
            groups[title][method] = Entry(partial(library, ours), seeds)
    about = (
        "Iterations per second, those of seeds side by side added up: 5 steps of 10 points, plain gradient descent. "
        "Plain PyTorch trains one seed, and is not charged for drawing its tasks."
    )
    return race("Sine wave", about, groups, ("plain PyTorch", "reptile"), repeats, announce)
