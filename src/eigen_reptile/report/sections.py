"""The parts of the report: what is said about each group of results."""

import base64
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from eigen_reptile.methods import METHODS
from eigen_reptile.recipes import RECIPES
from eigen_reptile.report import figures, noise, tables
from eigen_reptile.report.claims import claims_table
from eigen_reptile.report.collect import Cell, Group, shots_and_columns
from eigen_reptile.report.theory import Found, study_table
from eigen_reptile.result import read_examples


class Section(NamedTuple):
    """One part of the report: some words, and a table or a figure."""

    name: str
    title: str
    text: str
    markdown: str = ""
    figure: Path | None = None

    @property
    def table(self) -> list[list[str]]:
        """The cells of the Markdown table."""
        lines = [line.strip("| ").split(" | ") for line in self.markdown.splitlines()]
        return [[cell.strip("` ") for cell in line] for line in lines if not line[0].startswith("---")]

    @property
    def image(self) -> str:
        return base64.b64encode(self.figure.read_bytes()).decode() if self.figure else ""


def make_sections(groups: Sequence[Group], studies: Sequence[Found], drawings: Path) -> list[Section]:
    """All parts of the report, with their figures drawn into a folder."""
    drawings.mkdir(parents=True, exist_ok=True)
    sections: list[Section] = []
    for group in groups:
        sections += _about_curves(group, drawings) if group.measure == "squared error" else _about(group, drawings)
    for name, study, origin in studies:
        figure = drawings / f"theory-{name}.png"
        figures.study_panels(study.panels, figure)
        text = f"{study.about} ({origin})"
        sections.append(Section(f"theory-{name}", study.title, text, study_table(study), figure))
    how = (
        "Paired: all methods saw the same tasks and batches. On the sine wave a claim holds if the 95 % interval "
        "of the difference over seeds lies on its side of zero. On pictures it must lie there over test tasks "
        "(each averaged over the seeds), which tells the trained networks apart, and over seeds, which tell the "
        "methods apart. Faster means a smaller validation error, averaged over training; convergence means less "
        "than half of the validation error that the network had before training. Each method has the rates that it "
        "did best with on validation tasks, out of the same tries. Of the theory a claim holds if its difference lies "
        "below zero, with its interval, at every point that was tried."
    )
    claims = claims_table(groups, studies)
    sections.append(
        Section("claims", "The paper's claims", how if claims else "These runs decide none of them.", claims)
    )
    sections.append(Section("provenance", "Where this comes from", "", tables.provenance(groups)))
    return sections


def _about_curves(group: Group, drawings: Path) -> list[Section]:
    """Section 5.1 of the paper: squared errors on the sine wave."""
    cells, converged = group.cells, group.converged
    errors = (
        "Squared error over the whole curve, mean and 95 % interval over seeds, after so many inner steps on 10 "
        "shots. The outer step size was chosen on validation tasks. The integral is the paper's loss."
    )
    sections = [Section(f"{group.name}-errors", f"{group.name}: error on test tasks", errors, tables.errors(cells))]
    if converged:
        figure = drawings / f"{group.name}-directions.png"
        figures.learning_curves(group, figure)
        text = "Validation error over the outer iterations (paper, figure 4)."
        sections.append(Section(f"{group.name}-directions", f"{group.name}: error while training", text, figure=figure))
    pair = [cell for name in ("eigen-reptile", "reptile") if (cell := group.find(METHODS[name])) and cell.converged]
    if pair and all(len(cell.result["pictures"]) == len(pair[0].result["pictures"]) > 0 for cell in pair):
        figure = drawings / f"{group.name}-curves.png"
        figures.fitted_curves(pair, figure)
        text = "One task, seed 0, at several outer iterations (paper, figure 3)."
        sections.append(Section(f"{group.name}-curves", f"{group.name}: fitted curves", text, figure=figure))
    if converged and any(len(cell.experiment.meta.lr) > 1 for cell in cells):
        figure = drawings / f"{group.name}-step-sizes.png"
        figures.step_sizes(cells, figure)
        text = "Validation error after training, mean over seeds."
        table = tables.step_sizes(cells)
        sections.append(Section(f"{group.name}-step-sizes", f"{group.name}: outer step sizes", text, table, figure))
    return sections


def _about(group: Group, drawings: Path) -> list[Section]:
    """Accuracies on pictures."""
    if not any(cell.tests for cell in group.cells):
        text = "Accuracy on validation tasks with each of the rates that were tried; the test tasks were not touched."
        return [Section(group.name, f"{group.name}: rates tried", text, tables.step_sizes(group.cells))]
    recipe = RECIPES.get(group.name)
    table = tables.accuracies(group.cells, recipe.published if recipe else {})
    sections = [Section(group.name, f"{group.name}: accuracy on test tasks", _protocol(group.cells), table)]
    if group.converged:
        figure = drawings / f"{group.name}.png"
        figures.learning_curves(group, figure)
        text = "Accuracy on validation tasks over the outer iterations."
        sections.append(Section(f"{group.name}-curve", f"{group.name}: accuracy while training", text, figure=figure))
    all_timed = all(cell.training_seconds for cell in group.converged)
    if all_timed and len({cell.result["steps"] for cell in group.converged}) > 1:
        figure = drawings / f"{group.name}-time.png"
        figures.accuracy_over_time(group.converged, figure)
        text = "Accuracy on validation tasks against the time that training has taken, without validation."
        sections.append(Section(f"{group.name}-time", f"{group.name}: accuracy and time", text, figure=figure))
    if group.varies_inner_steps:
        figure = drawings / f"{group.name}-steps.png"
        by_steps = sorted((cell for cell in group.cells if cell.tests), key=lambda cell: cell.experiment.inner.steps)
        figures.accuracy_over_inner_steps(by_steps, figure)
        text = "Accuracy against the number of inner steps in training (paper, appendix)."
        sections.append(Section(f"{group.name}-steps", f"{group.name}: inner steps", text, figure=figure))
    sections += _about_noise(group, drawings)
    examples = _same_example({cell.name: found for cell in group.cells if (found := read_examples(cell.folder))})
    if examples:
        figure = drawings / f"{group.name}-example.png"
        figures.example_task(examples, figure)
        text = "One test task: a support picture of each class, and queries with what each method takes them for."
        sections.append(
            Section(f"{group.name}-example", f"{group.name}: pictures and predictions", text, figure=figure)
        )
    return sections


def _about_noise(group: Group, drawings: Path) -> list[Section]:
    """How accuracy falls as more labels are wrong, and what selectors made of them."""
    sections = []
    for kind in ("symmetric", "asymmetric"):
        lines = noise.lines_over_rate(group, kind)
        if any(rate > 0 for points in lines.values() for rate, _ in points):
            for shots, column in shots_and_columns(group.cells):
                if column == "transductive":
                    figure = drawings / f"{group.name}-{kind}-{shots}.png"
                    figures.accuracy_over_noise(lines, shots, column, figure)
                    title = f"{group.name}: {kind} noise, {shots}-shot"
                    text = f"Accuracy against the rate of {kind} noise in training (paper, table 3)."
                    sections.append(Section(f"{group.name}-{kind}-{shots}", title, text, figure=figure))
    if table := noise.selection_table(group):
        text = "What was dropped from the candidates, on average over training, against the true labels."
        sections.append(Section(f"{group.name}-selection", f"{group.name}: samples kept and dropped", text, table))
    return sections


def _same_example(examples: Mapping[str, Mapping[str, np.ndarray]]) -> dict[str, Mapping[str, np.ndarray]]:
    """Those that show the same pictures as the first: only they can be shown together."""
    first = next(iter(examples.values()), {})
    return {name: found for name, found in examples.items() if np.array_equal(found["query"], first["query"])}


def _protocol(cells: Sequence[Cell]) -> str:
    """How the accuracies were measured, and at what scale: the paper trains for 100,000 iterations."""
    lengths = [cell.result["steps"] for cell in cells]
    after = [cell.experiment.evaluation.after[-1] for cell in cells]
    test = next(cell.tests[0] for cell in cells if cell.tests)
    scale = (
        ""
        if min(lengths) >= 100_000
        else f" This is scaled down: {_span(lengths)} iterations here, 100,000 in section 5.2 of the paper."
    )
    return (
        f"{cells[0].experiment.tested_way}-way accuracy in per cent on {test['tasks']} test tasks with "
        f"{test['queries']} queries a class, after {_span(after)} inner steps; "
        "95 % interval over tasks, and over seeds. Transductive: "
        "batch-norm sees all queries of a task together; inductive: each query with the support alone."
        f"{scale}"
    )


def _span(values: Sequence[int]) -> str:
    """The smallest and the largest, or the one that there is."""
    return " to ".join(f"{value:,}" for value in dict.fromkeys((min(values), max(values))))
