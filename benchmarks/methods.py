"""The cost of an outer iteration of every method."""

from benchmarks.contenders import library_entry
from benchmarks.conv4 import RandomImages
from benchmarks.timing import compare_speeds
from eigen_reptile.methods import METHODS
from eigen_reptile.report.benchmark import BenchmarkTable
from eigen_reptile.runtime.progress import StartProgress
from eigen_reptile.training.presets import preset

IMAGES, FILTERS = RandomImages(32, 3), 32


def methods(repeats: int, start_progress: StartProgress) -> BenchmarkTable:
    """Outer iterations per second of every method on images of 32 x 32 pixels."""
    experiments = {name: preset(IMAGES, method, FILTERS) for name, method in METHODS.items()}
    entries = {name: library_entry(exp) for name, exp in experiments.items()}
    about = (
        f"Outer iterations per second on 32 x 32 x 3 with {FILTERS} filters, each method with the tasks and inner "
        "steps of `train METHOD cifar-fs`. A slower iteration does not mean that a method learns less in the same "
        "time."
    )
    # Each method only together with Reptile, so that at most two networks are in memory.
    groups = {name: {"reptile": entries["reptile"], name: entry} for name, entry in entries.items()}
    table = compare_speeds("Methods", about, groups, ("reptile",), repeats, start_progress)
    return table._replace(rows=[row for row in table.rows if row[0] == row[1]])
