"""Tables in Markdown."""

from collections.abc import Mapping, Sequence

from eigen_reptile.data import Sine
from eigen_reptile.recipes import Published
from eigen_reptile.report.collect import Cell, Group, shots_and_columns


def markdown(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table."""
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def score(measure: str, mean: float, half: float | None) -> str:
    """A score with its interval: accuracies in per cent, errors as they are."""
    scale, digits = (100, 2) if measure == "accuracy" else (1, 4)
    return f"{scale * mean:.{digits}f}" + ("" if half is None else f" ± {scale * half:.{digits}f}")


def errors(cells: Sequence[Cell]) -> str:
    """Squared error on the test tasks after so many inner steps, with the step size that validation chose."""
    columns = [column for _, column in shots_and_columns(cells)]
    headings = ["direction", "outer step", "that step is", *columns, "integral at the end"]
    return markdown(headings, [_error_row(cell) for cell in cells])


def accuracies(cells: Sequence[Cell], published: Mapping[tuple[str, int], Published]) -> str:
    """Accuracy on the test tasks, beside what the paper reports."""
    columns = shots_and_columns(cells)
    papers = sorted({shots for shots, _ in columns if any((cell.name, shots) in published for cell in cells)})
    rows = []
    for cell in cells:
        row = [cell.name, f"{cell.experiment.inner.lr:g}", _outer_step(cell)]
        row += [_accuracy(cell, shots, column) for shots, column in columns]
        for shots in papers:
            paper = published.get((cell.name, shots))
            row.append(score("accuracy", paper.mean / 100, paper.ci95 and paper.ci95 / 100) if paper else "")
        rows.append(row)
    measured = [f"{shots}-shot, {column}" for shots, column in columns]
    return markdown(
        ["method", "inner rate", "outer step", *measured, *(f"paper, {shots}-shot" for shots in papers)], rows
    )


def step_sizes(cells: Sequence[Cell]) -> str:
    """Validation score for every outer step size that was tried."""
    grid = sorted({lr for cell in cells for lr in cell.experiment.meta.lr})
    rows = []
    for cell in cells:
        tried = set(cell.experiment.meta.lr)
        inner = f"{cell.experiment.inner.lr:g}"
        rows.append([cell.name, inner, *(_validation(cell, lr) if lr in tried else "" for lr in grid)])
    return markdown(["cell", "inner rate", *(f"outer step {lr:g}" for lr in grid)], rows)


def provenance(groups: Sequence[Group]) -> str:
    """How each result came about."""
    rows = []
    for cell in [cell for group in groups for cell in group.cells]:
        here, exp = cell.result["environment"], cell.experiment
        rows.append(
            [
                cell.name,
                f"{cell.result['steps']:,}",
                " ".join(str(seed) for seed in exp.seeds),
                f"`{here['command']}`",
                f"{here['version']} ({here['commit']})",
                f"{here['python']}, {here['torch']}",
                f"{cell.result['seconds']:g} s",
            ]
        )
    return markdown(["cell", "iterations", "seeds", "command", "version", "Python, torch", "last start took"], rows)


def _error_row(cell: Cell) -> list[str]:
    if not cell.converged:
        return [cell.name, "", "all diverge"]
    test, choice = cell.tests[0], cell.result["choice"]
    means = [score("squared error", *pair) for pair in zip(test["mean"], test["ci95_seeds"], strict=True)]
    half = test["ci95_seeds"][-1]
    width = cell.experiment.data.high - cell.experiment.data.low if isinstance(cell.experiment.data, Sine) else 1.0
    # The mean over the grid times the width of its interval is the paper's integral.
    integral = score("squared error", width * test["mean"][-1], None if half is None else width * half)
    return [cell.name, f"{choice['lr']:g}", choice["bracket"], *means, integral]


def _outer_step(cell: Cell) -> str:
    return f"{cell.result['choice']['lr']:g}" if cell.converged else "all diverge"


def _accuracy(cell: Cell, shots: int, column: str) -> str:
    """The mean with its interval over tasks, and over seeds where there are several."""
    test = next((test for test in cell.tests if test["shots"] == shots), None)
    if test is None or column not in test["columns"]:
        return ""
    place = test["columns"].index(column)
    over_seeds = test["ci95_seeds"][place]
    shown = score("accuracy", test["mean"][place], test["ci95_tasks"][place])
    return shown if over_seeds is None else f"{shown} (seeds ± {100 * over_seeds:.2f})"


def _validation(cell: Cell, lr: float) -> str:
    found, diverged = cell.validation(lr)
    if not found:
        return "diverges"
    mean = sum(found) / len(found)
    shown = score(cell.result["measure"], mean, None) if mean < 1000 else f"{mean:.1e}"
    return f"{shown} ({diverged} of {len(found) + diverged} diverge)" if diverged else shown
