"""The sine wave: small networks, where all that is around the arithmetic counts."""

import os
from dataclasses import replace
from functools import partial

from eigen_reptile.bench.contenders import jax_meta, library_entry, other, plain_reptile
from eigen_reptile.bench.turns import Entry, Figures, race
from eigen_reptile.config import Experiment, MetaConfig
from eigen_reptile.methods import METHODS
from eigen_reptile.progress import Announce

JAX_PYTHON = "EIGEN_REPTILE_JAX_PYTHON"
"""Names a Python that has jax-meta, if it is to take part."""
SIZES = (("1 task an iteration", 1, 1), ("5 tasks an iteration", 5, 1), ("25 seeds, 1 task each", 1, 25))
AT_A_TIME = 100


def sine(repeats: int, announce: Announce) -> Figures:
    """Seed-iterations per second on the sine wave: 5 tasks an iteration, and 25 seeds side by side."""
    groups = {}
    jax_python = os.environ.get(JAX_PYTHON)
    for title, batch, seeds in SIZES:
        one = Experiment(meta=MetaConfig(batch=batch, steps=1_000_000, lr=(0.1,)))
        build = partial(one.model.build, (1,), 1)
        groups[title] = {"plain PyTorch": Entry(partial(other, plain_reptile, one, build))}
        for method in ("reptile", "eigen-reptile"):
            ours = replace(one, method=METHODS[method], seeds=tuple(range(seeds)))
            groups[title][method] = library_entry(ours, seeds)
        if jax_python:
            groups[title]["jax-meta"] = Entry(partial(jax_meta, jax_python, batch, AT_A_TIME), AT_A_TIME)
    about = (
        "Iterations per second, those of seeds side by side added up: 5 steps of 10 points, plain gradient descent. "
        "Plain PyTorch and jax-meta train one seed, and are not charged for drawing their tasks; jax-meta takes the "
        "same points at every step."
    )
    return race("Sine wave", about, groups, ("plain PyTorch", "jax-meta", "reptile"), repeats, announce)
