"""Tables in Markdown."""

from collections.abc import Sequence

from eigen_reptile.report.collect import Cell


def markdown(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table."""
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def errors(cells: Sequence[Cell]) -> str:
    """Squared error on the test tasks after so many inner steps, with the step size that validation chose."""
    after: list[int] = next((cell.test["after"] for cell in cells if cell.converged), [])
    headings = [
        "direction",
        "outer step",
        "that step is",
        *(f"{steps} steps" for steps in after),
        "integral at the end",
    ]
    return markdown(headings, [_error_row(cell) for cell in cells])


def step_sizes(cells: Sequence[Cell]) -> str:
    """Validation error after the last inner step for every outer step size that was tried."""
    grid = sorted({lr for cell in cells for lr in cell.experiment.meta.lr})
    rows = []
    for cell in cells:
        tried = set(cell.experiment.meta.lr)
        rows.append([cell.name, *(_validation(cell, lr) if lr in tried else "" for lr in grid)])
    return markdown(["direction", *(f"{lr:g}" for lr in grid)], rows)


def provenance(cells: Sequence[Cell]) -> str:
    """How each result came about."""
    rows = []
    for cell in cells:
        here, exp = cell.result["environment"], cell.experiment
        rows.append(
            [
                cell.name,
                f"{exp.meta.steps:,}",
                " ".join(str(seed) for seed in exp.seeds),
                f"`{here['command']}`",
                f"{here['version']} ({here['commit']})",
                f"{here['python']}, {here['torch']}",
                f"{cell.result['seconds']:g} s",
            ]
        )
    return markdown(["cell", "iterations", "seeds", "command", "version", "Python, torch", "last start took"], rows)


def plus_minus(mean: float, half: float | None) -> str:
    return f"{mean:.4f}" if half is None else f"{mean:.4f} ± {half:.4f}"


def _error_row(cell: Cell) -> list[str]:
    if not cell.converged:
        return [cell.name, "", "all diverge"]
    test, choice = cell.test, cell.result["choice"]
    means = [plus_minus(mean, half) for mean, half in zip(test["mean"], test["ci95"], strict=True)]
    integral = plus_minus(test["integral"][-1], test["integral_ci95"][-1])
    return [cell.name, f"{choice['lr']:g}", choice["bracket"], *means, integral]


def _validation(cell: Cell, lr: float) -> str:
    found, diverged = cell.validation(lr)
    if not found:
        return "diverges"
    error = sum(found) / len(found)
    mean = f"{error:.4f}" if error < 1000 else f"{error:.1e}"
    return f"{mean} ({diverged} of {len(found) + diverged} diverge)" if diverged else mean
