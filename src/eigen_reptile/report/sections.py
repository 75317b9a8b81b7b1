"""The sections of the report: text, table and figure about each group of results."""

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
from eigen_reptile.report.table import Table
from eigen_reptile.report.theory import StudyResult, study_table
from eigen_reptile.training.experiment import read_examples

PAPER_ITERATIONS = 100_000
"""Outer iterations in section 5.2 of the paper."""
CRITERIA = (
    "All comparisons are paired: every method had the same tasks and batches. On sine waves a claim holds if the 95 % "
    "interval of the difference over seeds lies on its side of zero. On images it must lie there both over test tasks "
    "(each averaged over the seeds), which distinguish the trained networks, and over seeds, which distinguish the "
    "methods. Faster means a lower validation error averaged over training; convergence means less than half of the "
    "validation error before training. Each method uses the learning rates that did best on validation tasks, chosen "
    "from the same candidates. A claim of the theory holds if its difference, with its interval, is below zero at "
    "every point that was tried."
)


class Section(NamedTuple):
    """One part of the report: text, and a table or a figure."""

    name: str
    """Its name in the markers of other files."""
    title: str
    text: str
    table: Table | None = None
    figure: Path | None = None

    @property
    def table_markdown(self) -> str:
        return self.table.to_markdown() if self.table else ""

    @property
    def figure_base64(self) -> str:
        return base64.b64encode(self.figure.read_bytes()).decode() if self.figure else ""


def make_sections(groups: Sequence[Group], studies: Sequence[StudyResult], drawings: Path) -> list[Section]:
    """All sections of the report; their figures are drawn into a folder."""
    drawings.mkdir(parents=True, exist_ok=True)
    sections: list[Section] = []
    for group in groups:
        make = _regression_sections if group.measure == "squared error" else _image_sections
        sections += make(group, drawings)
    for name, study, provenance in studies:
        figure = drawings / f"theory-{name}.png"
        figures.plot_study(study.panels, figure)
        text = f"{study.about} ({provenance})"
        sections.append(Section(f"theory-{name}", study.title, text, study_table(study), figure))
    claims = claims_table(groups, studies)
    text = CRITERIA if claims else "These runs do not test any of the paper's claims."
    sections.append(Section("claims", "The paper's claims", text, claims))
    text = "The command, version and environment that produced each result."
    sections.append(Section("provenance", "Provenance", text, tables.provenance_table(groups)))
    return sections


def _regression_sections(group: Group, drawings: Path) -> list[Section]:
    """Squared errors on sine waves (paper, section 5.1)."""
    cells, converged = group.cells, group.converged
    shots = _format_range([shots for cell in cells for shots in cell.experiment.evaluation.shots])
    text = (
        f"Squared error over the whole curve after each number of inner steps on {shots} shots: mean and 95 % interval "
        "over seeds. The outer step size was chosen on validation tasks. The integral is the paper's loss."
    )
    sections = [Section(f"{group.name}-errors", f"{group.name}: error on test tasks", text, tables.error_table(cells))]
    if converged:
        figure = drawings / f"{group.name}-directions.png"
        figures.plot_learning_curves(group, figure)
        title = f"{group.name}: error during training"
        text = "Validation error over the outer iterations (paper, figure 4)."
        sections.append(Section(f"{group.name}-directions", title, text, figure=figure))
    pair = [cell for name in ("eigen-reptile", "reptile") if (cell := group.find(METHODS[name])) and cell.converged]
    if pair and all(len(cell.result.snapshots) == len(pair[0].result.snapshots) > 0 for cell in pair):
        figure = drawings / f"{group.name}-curves.png"
        figures.plot_fitted_curves(pair, figure)
        title, text = f"{group.name}: fitted curves", "One task, seed 0, at several outer iterations (paper, figure 3)."
        sections.append(Section(f"{group.name}-curves", title, text, figure=figure))
    if converged and any(len(cell.experiment.meta.lr) > 1 for cell in cells):
        figure = drawings / f"{group.name}-step-sizes.png"
        figures.plot_outer_step_sizes(cells, figure)
        title, text = f"{group.name}: outer step sizes", "Validation error after training, mean over seeds."
        sections.append(Section(f"{group.name}-step-sizes", title, text, tables.step_size_table(cells), figure))
    return sections


def _image_sections(group: Group, drawings: Path) -> list[Section]:
    """Accuracies on images (paper, sections 5.2 and 5.3)."""
    if not any(cell.tests for cell in group.cells):
        text = "Accuracy on validation tasks for each learning rate that was tried; test tasks were not evaluated."
        return [Section(group.name, f"{group.name}: learning rates tried", text, tables.step_size_table(group.cells))]
    recipe = RECIPES.get(group.name)
    table = tables.accuracy_table(group.cells, recipe.published if recipe else {})
    sections = [Section(group.name, f"{group.name}: accuracy on test tasks", _protocol(group.cells), table)]
    sections += _training_sections(group, drawings)
    if group.varies_inner_steps:
        figure = drawings / f"{group.name}-steps.png"
        by_steps = sorted((cell for cell in group.cells if cell.tests), key=lambda cell: cell.experiment.inner.steps)
        figures.plot_accuracy_over_inner_steps(by_steps, figure)
        text = "Accuracy against the number of inner steps in training (paper, appendix)."
        sections.append(Section(f"{group.name}-steps", f"{group.name}: inner steps", text, figure=figure))
    sections += _noise_sections(group, drawings)
    if examples := _examples_of_first_task(group):
        figure = drawings / f"{group.name}-example.png"
        figures.plot_example_task(examples, figure)
        text = "One test task: a support image of each class, and the queries with the predictions of each method."
        title = f"{group.name}: images and predictions"
        sections.append(Section(f"{group.name}-example", title, text, figure=figure))
    return sections


def _training_sections(group: Group, drawings: Path) -> list[Section]:
    """Accuracy on validation tasks over the iterations and, if methods had different numbers of them, over time."""
    sections = []
    if group.converged:
        figure = drawings / f"{group.name}.png"
        figures.plot_learning_curves(group, figure)
        text = "Accuracy on validation tasks over the outer iterations."
        sections.append(Section(f"{group.name}-curve", f"{group.name}: accuracy during training", text, figure=figure))
    all_timed = all(cell.training_seconds for cell in group.converged)
    if all_timed and len({cell.result.steps for cell in group.converged}) > 1:
        figure = drawings / f"{group.name}-time.png"
        figures.plot_accuracy_over_time(group.converged, figure)
        text = "Accuracy on validation tasks against training time, without the time for validation."
        title = f"{group.name}: accuracy against training time"
        sections.append(Section(f"{group.name}-time", title, text, figure=figure))
    return sections


def _noise_sections(group: Group, drawings: Path) -> list[Section]:
    """Accuracy against the noise rate, and what the sample selectors discarded."""
    sections = []
    for kind in ("symmetric", "asymmetric"):
        lines = noise.cells_by_noise_rate(group, kind)
        if any(rate > 0 for points in lines.values() for rate, _ in points):
            for shots, column in shots_and_columns(group.cells):
                if column == "transductive":
                    figure = drawings / f"{group.name}-{kind}-{shots}.png"
                    figures.plot_accuracy_over_noise(lines, shots, column, figure)
                    title = f"{group.name}: {kind} noise, {shots}-shot"
                    text = f"Accuracy against the rate of {kind} noise in training (paper, table 3)."
                    sections.append(Section(f"{group.name}-{kind}-{shots}", title, text, figure=figure))
    if table := noise.selection_table(group):
        text = "Fractions of the candidates, averaged over training; precision and recall refer to the true labels."
        title = f"{group.name}: samples kept and discarded"
        sections.append(Section(f"{group.name}-selection", title, text, table))
    return sections


def _examples_of_first_task(group: Group) -> dict[str, Mapping[str, np.ndarray]]:
    """The stored example tasks that show the same images as the first one, and so fit into one figure."""
    examples = {cell.name: example for cell in group.cells if (example := read_examples(cell.folder))}
    first = next(iter(examples.values()), {})
    return {name: example for name, example in examples.items() if np.array_equal(example["query"], first["query"])}


def _protocol(cells: Sequence[Cell]) -> str:
    """How the accuracies were measured, and by how much the experiment is smaller than the paper's."""
    lengths = [cell.result.steps for cell in cells]
    inner_steps = [cell.experiment.evaluation.inner_steps[-1] for cell in cells]
    test = next(cell.tests[0] for cell in cells if cell.tests)
    scale = (
        ""
        if min(lengths) >= PAPER_ITERATIONS
        else f" The experiment is scaled down: {_format_range(lengths)} outer iterations, "
        f"where section 5.2 of the paper has {PAPER_ITERATIONS:,}."
    )
    return (
        f"{cells[0].experiment.tested_way}-way accuracy in per cent on {test.tasks} test tasks with "
        f"{test.queries} queries per class, after {_format_range(inner_steps)} inner steps; "
        "95 % intervals over tasks, and over seeds if there are several. Transductive: all queries of a task share one "
        "batch for batch-norm; inductive: each query is in a batch with the support only."
        f"{scale}"
    )


def _format_range(values: Sequence[int]) -> str:
    """The smallest and the largest value, or the only one."""
    return " to ".join(f"{value:,}" for value in dict.fromkeys((min(values), max(values))))
