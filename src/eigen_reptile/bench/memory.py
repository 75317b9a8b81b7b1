"""Memory: one task's trajectory at a time, however many tasks there are."""

from dataclasses import replace
from multiprocessing import get_context

import torch

from eigen_reptile.bench.contenders import library, library_stage
from eigen_reptile.bench.conv4 import experiment
from eigen_reptile.bench.turns import Figures
from eigen_reptile.config import Experiment
from eigen_reptile.environment import environment
from eigen_reptile.methods import METHODS
from eigen_reptile.models import Mlp
from eigen_reptile.progress import Announce

WIDE = Mlp(hidden=(2770, 2770))
"""Ten million parameters on 28 x 28 pictures, and next to no activations."""
TASKS = (1, 5, 10)


def memory(repeats: int, announce: Announce) -> Figures:
    """Peak memory of training a network of 10 million parameters, for 1, 5 and 10 tasks an iteration."""
    base = replace(experiment(28, 1, 32), method=METHODS["eigen-reptile"], model=WIDE)
    report = announce("Memory", len(TASKS))
    rows: list[list[str | float]] = []
    context = get_context("spawn")
    for done, tasks in enumerate(TASKS, 1):
        # A process of its own, because a peak is never forgotten.
        with context.Pool(1) as pool:
            d, peak = pool.apply(peak_bytes, (replace(base, meta=replace(base.meta, batch=tasks)), repeats))
        rows.append([str(tasks), f"{d:,}", peak / 2**20, peak / (4 * d)])
        report(done, {})
    about = (
        f"What {repeats} iterations of Eigen-Reptile take at their peak, data and network included, above what the "
        "process took before. A trajectory has 8 rows, the start and 7 steps; one is held at a time."
    )
    columns = ("tasks", "parameters", "peak, MiB", "in vectors of parameters")
    return Figures("Memory", about, columns, rows, repeats, environment(torch.device("cpu")))


def peak_bytes(exp: Experiment, iterations: int) -> tuple[int, int]:
    """The number of parameters, and the bytes by which training raises this process's peak."""
    before, d = _peak(), library_stage(exp).learner.d
    contender = library(exp)
    for _ in range(iterations):
        contender()
    return d, _peak() - before


def _peak() -> int:
    import resource  # there is none on Windows

    kibibytes: int = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return 1024 * kibibytes
