"""Peak memory, which hardly grows with the number of tasks: one trajectory is held at a time."""

from dataclasses import replace
from multiprocessing import get_context

from benchmarks.contenders import library_contender, library_setup
from benchmarks.conv4 import experiment
from benchmarks.timing import measured_table
from eigen_reptile.methods import METHODS
from eigen_reptile.nn import Mlp
from eigen_reptile.report.benchmark import BenchmarkTable
from eigen_reptile.runtime.progress import StartProgress
from eigen_reptile.training.config import Experiment

WIDE = Mlp(hidden=(2770, 2770))
"""Ten million parameters on 28 x 28 images, and small activations in comparison."""
TASKS = (1, 5, 10)


def memory(repeats: int, start_progress: StartProgress) -> BenchmarkTable:
    """Peak memory of training a network of 10 million parameters, with 1, 5 and 10 tasks in a meta-batch."""
    base = replace(experiment(28, 1, 32), method=METHODS["eigen-reptile"], model=WIDE)
    report = start_progress("Memory", len(TASKS))
    rows: list[list[str | float]] = []
    context = get_context("spawn")
    for done, tasks in enumerate(TASKS, 1):
        # In a new process each, because the recorded peak of a process never falls.
        with context.Pool(1) as pool:
            d, peak = pool.apply(peak_bytes, (replace(base, meta=replace(base.meta, batch=tasks)), repeats))
        rows.append([str(tasks), f"{d:,}", peak / 2**20, peak / (4 * d)])
        report(done, {})
    about = (
        f"By how much {repeats} iterations of Eigen-Reptile raise the peak memory of the process, including data and "
        "network. A trajectory has 8 rows, the start and 7 steps; one is held at a time."
    )
    columns = ("tasks", "parameters", "peak, MiB", "in vectors of parameters")
    return measured_table("Memory", about, columns, rows, repeats)


def peak_bytes(exp: Experiment, iterations: int) -> tuple[int, int]:
    """The number of parameters, and the bytes by which training raises the peak memory of this process."""
    before, d = _peak_memory(), library_setup(exp).network.d
    contender = library_contender(exp)
    for _ in range(iterations):
        contender()
    return d, _peak_memory() - before


def _peak_memory() -> int:
    import resource  # not available on Windows

    kibibytes: int = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return 1024 * kibibytes
