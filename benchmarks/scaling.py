"""The cost of an iteration as the number of inner steps, parameters or tasks grows."""

from collections.abc import Iterator
from dataclasses import replace

from benchmarks.contenders import library_entry
from benchmarks.conv4 import experiment
from benchmarks.timing import compare_speeds
from eigen_reptile.methods import METHODS
from eigen_reptile.nn import Conv4
from eigen_reptile.report.benchmark import BenchmarkTable
from eigen_reptile.runtime.progress import StartProgress, no_progress
from eigen_reptile.training.config import Experiment
from eigen_reptile.training.setup import set_up

STEPS = (2, 4, 8, 16, 32)
FILTERS = (16, 32, 48, 64, 96)
TASKS = (1, 2, 4, 8, 16)


def scaling(repeats: int, start_progress: StartProgress) -> BenchmarkTable:
    """Milliseconds of an iteration by inner steps, parameters and tasks, and the overhead of Eigen-Reptile."""
    sizes = list(_experiments_by_size())
    pair = ("reptile", "eigen-reptile")
    groups = {
        f"{what} {number:,}": {name: library_entry(replace(exp, method=METHODS[name])) for name in pair}
        for what, number, exp in sizes
    }
    table = compare_speeds("Scaling", "", groups, ("reptile",), repeats, start_progress)
    rows: list[list[str | float]] = []
    for (what, number, _), reptile, eigen in zip(sizes, table.rows[::2], table.rows[1::2], strict=True):
        # From iterations per second to milliseconds, and from the ratio of speeds to the overhead in per cent.
        rows.append([what, number, 1000 / float(reptile[2]), 1000 / float(eigen[2]), 100 * (1 / float(eigen[5]) - 1)])
    about = (
        "Time of one iteration of Conv4 on 28 x 28 images as one number grows; the others stay at 7 inner steps, 32 "
        "filters and 5 tasks. According to the paper, the cost is linear in each."
    )
    columns = ("", "number", "Reptile, ms", "Eigen-Reptile, ms", "Eigen-Reptile adds, %")
    return table._replace(about=about, columns=columns, rows=rows)


def _experiments_by_size() -> Iterator[tuple[str, int, Experiment]]:
    base = experiment(28, 1, 32)
    for steps in STEPS:
        yield "inner steps", steps, replace(base, inner=replace(base.inner, steps=steps))
    for filters in FILTERS:
        exp = replace(base, model=Conv4(filters))
        yield "parameters", set_up(exp, no_progress, "cpu").network.d, exp
    for tasks in TASKS:
        yield "tasks", tasks, replace(base, meta=replace(base.meta, batch=tasks))
