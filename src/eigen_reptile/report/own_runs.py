"""The report on runs on one's own data: what was measured, how the runs differ, and which classes were in which split.

The paper says nothing about them, so nothing here refers to it.
"""

from collections.abc import Sequence
from math import hypot

from eigen_reptile.methods import METHODS
from eigen_reptile.report.collect import Cell, Group, shots_and_columns
from eigen_reptile.report.paired import Comparison, comparisons, why_not_comparable
from eigen_reptile.report.table import Table
from eigen_reptile.report.tables import format_accuracy, format_outer_step_size, format_range
from eigen_reptile.report.verdicts import HOLDS, INCONCLUSIVE, verdict_on_difference

LARGE_DROP = 0.05
"""There is a warning if validation accuracy exceeds test accuracy by more than this, with its whole 95 % interval."""
SHOWN_CLASSES = 50
"""Names of classes that are listed for each split."""


def accuracy_table(cells: Sequence[Cell]) -> Table:
    """Accuracy on the test tasks of each run, with its method."""
    columns = shots_and_columns(cells)
    names = {method: name for name, method in reversed(METHODS.items())}
    rows = [
        [
            cell.name,
            names.get(cell.experiment.method, type(cell.experiment.method).__name__),
            f"{cell.experiment.inner.lr:g}",
            format_outer_step_size(cell),
            *(format_accuracy(cell, shots, column) for shots, column in columns),
        ]
        for cell in cells
    ]
    measured = [f"{shots}-shot, {column}" for shots, column in columns]
    return Table.of(["run", "method", "inner rate", "outer step size", *measured], rows)


def describe_intervals(cells: Sequence[Cell]) -> str:
    """What the intervals of the accuracies do and do not cover."""
    tested = [cell for cell in cells if cell.tests]
    tasks = format_range([test.tasks for cell in tested for test in cell.tests])
    counts = [len(names) for cell in tested if (names := _tested_classes(cell))]
    classes = f"these {format_range(counts)} test classes" if len(counts) == len(tested) else "these test classes"
    text = f"± is the 95 % interval over {tasks} tasks of {classes}; other classes can differ by more."
    seeds = {len(cell.experiment.seeds) for cell in tested}
    if seeds == {1}:
        return f"{text} One seed was trained, so the spread over seeds is not known."
    return f"{text} In brackets is the interval over {format_range(sorted(seeds - {1}))} seeds."


def describe_choices(cells: Sequence[Cell]) -> str:
    """What was chosen on validation tasks, and what was not."""
    text = []
    for grid in dict.fromkeys(cell.experiment.meta.lr for cell in cells if len(cell.experiment.meta.lr) > 1):
        among = _join_words([f"{lr:g}" for lr in grid])
        runs = _names_unless_all(cells, [cell for cell in cells if cell.experiment.meta.lr == grid])
        text.append(f"The outer step size was chosen on validation tasks among {among}{runs}.")
    if not text:
        text.append("The learning rates were set, not tuned.")
    if best := [cell for cell in cells if cell.experiment.meta.keep == "best"]:
        runs = _names_unless_all(cells, best)
        text.append(f"Of the initialisations during training, the best on validation tasks was tested{runs}.")
    return " ".join(text)


def comparison_table(group: Group) -> Table | None:
    """Every run against the one that was best on validation tasks; None if there are no two on the same tasks."""
    tested = [cell for cell in group.cells if cell.tests]
    if len(tested) < 2:
        return None
    best = max(tested, key=lambda cell: cell.result.choice.validation if cell.result.choice else -1.0)
    rows = [
        [f"{best.name} against {other.name}", *_differences(found)]
        for other in tested
        if other is not best and not why_not_comparable(best, other)
        for found in comparisons(best, other)
    ]
    headings = ["runs", "measured by", "points, over tasks", "points, over seeds", "the first run is"]
    return Table.of(headings, rows) if rows else None


def classes_table(cells: Sequence[Cell]) -> Table | None:
    """The classes of each split; None if they were not recorded. Runs with the same splits share their rows."""
    runs: dict[tuple[tuple[str, ...], ...], list[str]] = {}
    for cell in cells:
        if cell.result.classes:
            splits = tuple(_split_row(split, sizes) for split, sizes in cell.result.classes.items())
            runs.setdefault(splits, []).append(cell.name)
    if not runs:
        return None
    rows = [(*row, _join_words(names)) for splits, names in runs.items() for row in splits]
    return Table.of(["split", "classes", "images", "names", "runs"], rows)


def validation_warnings(cells: Sequence[Cell]) -> list[str]:
    """A sentence for each run whose accuracy on validation tasks is far above that on test tasks."""
    found = []
    for cell in cells:
        choice, test = cell.result.choice, cell.tests[0] if cell.tests else None
        if choice is None or test is None or cell.result.measure != "accuracy":
            continue
        mean, half = test.mean[-1], test.ci95_tasks[-1]
        if mean is None or half is None:
            continue
        # Early versions did not record the interval of validation; it has as many tasks.
        drop, spread = choice.validation - mean, hypot(half, half if choice.ci95_tasks is None else choice.ci95_tasks)
        if drop - spread > LARGE_DROP:
            found.append(
                f"{cell.name} classifies {100 * choice.validation:.2f} % correctly on validation tasks, but "
                f"{100 * mean:.2f} % on test tasks ({test.shots}-shot, {test.columns[-1]}): "
                f"{100 * drop:.2f} ± {100 * spread:.2f} points less."
            )
    return found


def _tested_classes(cell: Cell) -> list[str] | None:
    """The test classes with enough images for the tasks; None if they were not recorded."""
    sizes = (cell.result.classes or {}).get("test")
    needed = min(test.shots + test.queries for test in cell.tests)
    return None if sizes is None else [name for name, size in sizes.items() if size >= needed]


def _split_row(split: str, sizes: dict[str, int]) -> tuple[str, ...]:
    names = list(sizes)
    more = f", and {len(names) - SHOWN_CLASSES:,} more" if len(names) > SHOWN_CLASSES else ""
    return split, f"{len(names):,}", f"{sum(sizes.values()):,}", ", ".join(names[:SHOWN_CLASSES]) + more


def _differences(found: Comparison) -> list[str]:
    """The cells of a comparison: the measure, the differences, and what follows from them."""
    tasks, seeds = found.over_tasks, found.over_seeds
    over_tasks = (
        f"{100 * tasks.difference:+.2f} ± {100 * tasks.ci95:.2f} (p = {tasks.p:.2g}, {tasks.pairs} tasks)"
        if tasks.pairs > 1
        else f"{100 * tasks.difference:+.2f} (one task)"
    )
    over_seeds = f"{100 * seeds.difference:+.2f} ± {100 * seeds.ci95:.2f} ({seeds.pairs} seeds)" if seeds else ""
    return [f"{found.shots}-shot, {found.column}", over_tasks, over_seeds, _conclusion(found)]


def _conclusion(found: Comparison) -> str:
    """Tasks distinguish trained networks; only seeds show whether training again would end in the same way."""
    tasks, seeds = found.over_tasks, found.over_seeds
    on_tasks = verdict_on_difference(tasks.difference, tasks.ci95)
    if on_tasks == INCONCLUSIVE:
        return "not significantly different"
    words = "more accurate" if on_tasks == HOLDS else "less accurate"
    if seeds is not None and verdict_on_difference(seeds.difference, seeds.ci95) == on_tasks:
        return f"{words}, over tasks and over seeds"
    trained = "one seed does" if seeds is None else f"{seeds.pairs} seeds do"
    return f"{words} on these tasks; {trained} not show whether training again would give the same"


def _names_unless_all(cells: Sequence[Cell], some: Sequence[Cell]) -> str:
    """The names of some runs, to be appended to a sentence about them; nothing if it is about all."""
    return "" if len(some) == len(cells) else f" in {_join_words([cell.name for cell in some])}"


def _join_words(words: Sequence[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
