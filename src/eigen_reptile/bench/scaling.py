"""What an iteration costs as it gets more steps, more parameters or more tasks."""

from collections.abc import Iterator
from dataclasses import replace

from eigen_reptile.bench.contenders import library_entry
from eigen_reptile.bench.conv4 import experiment
from eigen_reptile.bench.turns import Figures, race
from eigen_reptile.config import Experiment
from eigen_reptile.methods import METHODS
from eigen_reptile.models import Conv4
from eigen_reptile.progress import Announce, silent
from eigen_reptile.stage import prepare

STEPS = (2, 4, 8, 16, 32)
FILTERS = (16, 32, 48, 64, 96)
TASKS = (1, 2, 4, 8, 16)


def scaling(repeats: int, announce: Announce) -> Figures:
    """Milliseconds of an iteration against inner steps, parameters and tasks, and what Eigen-Reptile adds."""
    sizes = list(_sizes())
    pair = ("reptile", "eigen-reptile")
    groups = {
        f"{what} {number:,}": {name: library_entry(replace(exp, method=METHODS[name])) for name in pair}
        for what, number, exp in sizes
    }
    found = race("Scaling", "", groups, ("reptile",), repeats, announce)
    rows: list[list[str | float]] = []
    for (what, number, _), reptile, ours in zip(sizes, found.rows[::2], found.rows[1::2], strict=True):
        # Per second, and as a ratio; an iteration that is so many times as fast takes so much less time.
        rows.append([what, number, 1000 / float(reptile[2]), 1000 / float(ours[2]), 100 * (1 / float(ours[5]) - 1)])
    about = (
        "What one iteration of Conv4 takes on 28 x 28 pictures as one number grows; the others stay at 7 inner steps, "
        "32 filters and 5 tasks. The paper has the cost linear in each."
    )
    columns = ("", "number", "Reptile, ms", "Eigen-Reptile, ms", "Eigen-Reptile adds, %")
    return found._replace(about=about, columns=columns, rows=rows)


def _sizes() -> Iterator[tuple[str, int, Experiment]]:
    base = experiment(28, 1, 32)
    for steps in STEPS:
        yield "inner steps", steps, replace(base, inner=replace(base.inner, steps=steps))
    for filters in FILTERS:
        exp = replace(base, model=Conv4(filters))
        yield "parameters", prepare(exp, silent, "cpu").learner.d, exp
    for tasks in TASKS:
        yield "tasks", tasks, replace(base, meta=replace(base.meta, batch=tasks))
