"""Sine regression: small networks, where everything but arithmetic takes most of the time."""

import os
from dataclasses import replace
from functools import partial

from benchmarks.contenders import jax_meta, library_entry
from benchmarks.peers import peer_contender, plain_reptile
from benchmarks.timing import ContenderFactory, compare_speeds
from eigen_reptile.methods import METHODS
from eigen_reptile.report.benchmark import BenchmarkTable
from eigen_reptile.runtime.progress import StartProgress
from eigen_reptile.training.config import Experiment, MetaConfig

JAX_PYTHON = "EIGEN_REPTILE_JAX_PYTHON"
"""Environment variable with the path of a Python that has jax-meta; without it jax-meta is left out."""
SIZES = (("1 task an iteration", 1, 1), ("5 tasks an iteration", 5, 1), ("25 seeds, 1 task each", 1, 25))
JAX_ITERATIONS = 100
"""Iterations of jax-meta in each call, because each call has to be sent to another process."""


def sine(repeats: int, start_progress: StartProgress) -> BenchmarkTable:
    """Iterations per second on sine regression: 1 and 5 tasks in a meta-batch, and 25 seeds side by side."""
    groups = {}
    jax_python = os.environ.get(JAX_PYTHON)
    for title, batch, seeds in SIZES:
        exp = Experiment(meta=MetaConfig(batch=batch, steps=1_000_000, lr=(0.1,)))
        build = partial(exp.model.build, (1,), 1)
        groups[title] = {"plain PyTorch": ContenderFactory(partial(peer_contender, plain_reptile, exp, build))}
        for method in ("reptile", "eigen-reptile"):
            seeded = replace(exp, method=METHODS[method], seeds=tuple(range(seeds)))
            groups[title][method] = library_entry(seeded, seeds)
        if jax_python:
            groups[title]["jax-meta"] = ContenderFactory(
                partial(jax_meta, jax_python, batch, JAX_ITERATIONS), JAX_ITERATIONS
            )
    about = (
        "Iterations per second, summed over the seeds that are trained side by side: 5 steps of 10 points, plain "
        "gradient descent. Plain PyTorch and jax-meta train one seed, and their time does not include sampling; "
        "jax-meta uses the same points in every step."
    )
    return compare_speeds("Sine wave", about, groups, ("plain PyTorch", "jax-meta", "reptile"), repeats, start_progress)
