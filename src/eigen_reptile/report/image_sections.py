"""The sections about experiments on images."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from eigen_reptile.errors import RunError
from eigen_reptile.recipes import RECIPES
from eigen_reptile.report import figures, noise, own_runs, tables
from eigen_reptile.report.collect import Cell, Group, shots_and_columns
from eigen_reptile.report.figures import ExampleTask
from eigen_reptile.report.section import Section
from eigen_reptile.report.support_noise import support_noise_sections
from eigen_reptile.report.tables import format_range
from eigen_reptile.training.experiment import EXAMPLES, read_examples

PAPER_ITERATIONS = 100_000
"""Outer iterations in section 5.2 of the paper."""
BATCHES = (
    "Transductive: all queries of a task share one batch for batch-norm; inductive: each query is in a batch with the "
    "support only."
)
ROTATIONS = ("", ", 90°", ", 180°", ", 270°")
"""Added to the names of classes that are rotated copies of others, in the order of their indices."""
WARNING = (
    "Validation and test have different classes, so accuracy depends much on the classes: expect that of the test, not "
    "that of validation, on further classes, and train with other splits to see how much it varies."
)


def image_sections(group: Group, drawings: Path) -> list[Section]:
    """Accuracies on images (paper, sections 5.2 and 5.3), and those with wrong labels in the support."""
    noisy = [cell for cell in group.cells if cell.experiment.evaluation.support_noise != "none"]
    clean = Group(group.name, tuple(cell for cell in group.cells if cell not in noisy))
    sections = _sections_of_clean_tests(clean, drawings) if clean.cells else []
    return sections + (support_noise_sections(group, drawings) if noisy else [])


def _sections_of_clean_tests(group: Group, drawings: Path) -> list[Section]:
    if not any(cell.tests for cell in group.cells):
        return [_untested_section(group)]
    sections = [_accuracy_section(group)]
    if warnings := own_runs.validation_warnings(group.cells):
        text = f"{' '.join(warnings)} {WARNING}"
        sections.append(Section(f"{group.name}-warning", f"{group.title}: warning", text))
    if not group.is_of_paper:
        sections += _own_sections(group)
    sections += _training_sections(group, drawings)
    if group.varies_inner_steps:
        figure = drawings / f"{group.name}-steps.png"
        by_steps = sorted((cell for cell in group.cells if cell.tests), key=lambda cell: cell.experiment.inner.steps)
        figures.plot_accuracy_over_inner_steps(by_steps, figure)
        text = f"Accuracy against the number of inner steps in training{group.cited('appendix')}."
        sections.append(Section(f"{group.name}-steps", f"{group.title}: inner steps", text, figure=figure))
    sections += _noise_sections(group, drawings)
    if examples := _examples_of_first_task(group):
        figure = drawings / f"{group.name}-example.png"
        figures.plot_example_task(examples, figure)
        whose = "" if len(examples) == 1 else " of each method" if group.is_of_paper else " of each run"
        text = f"One test task: a support image of each class, and the queries with the predictions{whose}."
        title = f"{group.title}: images and predictions"
        sections.append(Section(f"{group.name}-example", title, text, figure=figure))
    return sections


def _untested_section(group: Group) -> Section:
    if group.is_of_paper:
        title, heading = "learning rates tried", "cell"
        text = "Accuracy on validation tasks for each learning rate that was tried; test tasks were not evaluated."
    else:
        title, heading = "accuracy on validation tasks", "run"
        reason = "" if group.converged else ": training diverged"
        choices = own_runs.describe_choices(group.cells)
        text = f"Accuracy in per cent on validation tasks. {choices} Test tasks were not evaluated{reason}."
    return Section(group.name, f"{group.title}: {title}", text, tables.step_size_table(group.cells, heading))


def _accuracy_section(group: Group) -> Section:
    if group.is_of_paper:
        recipe = RECIPES.get(group.name)
        table = tables.accuracy_table(group.cells, recipe.published if recipe else {})
    else:
        table = own_runs.accuracy_table(group.cells)
    return Section(group.name, f"{group.title}: accuracy on test tasks", _protocol(group), table)


def _own_sections(group: Group) -> list[Section]:
    """How own runs differ, and which classes were in which split."""
    sections = []
    if table := own_runs.comparison_table(group):
        text = (
            "Paired differences: these runs had the same test tasks. The first run of each pair is the one that was "
            "best on validation tasks."
        )
        sections.append(Section(f"{group.name}-comparison", f"{group.title}: comparison", text, table))
    if table := own_runs.classes_table(group.cells):
        text = "No class is in two splits: validation and test tasks are made of classes that were not trained on."
        sections.append(Section(f"{group.name}-classes", f"{group.title}: classes of each split", text, table))
    return sections


def _training_sections(group: Group, drawings: Path) -> list[Section]:
    """Accuracy on validation tasks over the iterations and, if methods had different numbers of them, over time."""
    sections = []
    if group.converged:
        figure = drawings / f"{group.name}.png"
        figures.plot_learning_curves(group, figure)
        text = "Accuracy on validation tasks over the outer iterations."
        sections.append(Section(f"{group.name}-curve", f"{group.title}: accuracy during training", text, figure=figure))
    all_timed = all(cell.training_seconds for cell in group.converged)
    if all_timed and len({cell.result.steps for cell in group.converged}) > 1:
        figure = drawings / f"{group.name}-time.png"
        figures.plot_accuracy_over_time(group.converged, figure)
        text = "Accuracy on validation tasks against training time, without the time for validation."
        title = f"{group.title}: accuracy against training time"
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
                    figures.plot_accuracy_over_noise(lines, "training", shots, column, figure)
                    title = f"{group.title}: {kind} noise, {shots}-shot"
                    text = f"Accuracy against the rate of {kind} noise in training{group.cited('table 3')}."
                    sections.append(Section(f"{group.name}-{kind}-{shots}", title, text, figure=figure))
    if table := noise.selection_table(group):
        text = "Fractions of the candidates, averaged over training; precision and recall refer to the true labels."
        title = f"{group.title}: samples kept and discarded"
        sections.append(Section(f"{group.name}-selection", title, text, table))
    return sections


def _examples_of_first_task(group: Group) -> dict[str, ExampleTask]:
    """The stored example tasks that show the same images as the first one, and so fit into one figure."""
    stored = [(cell, example) for cell in group.cells if (example := read_examples(cell.folder))]
    return {
        cell.name: ExampleTask(
            example["support"], example["query"], example["query_y"], example["predicted"], _names(cell, example)
        )
        for cell, example in stored
        if np.array_equal(example["query"], stored[0][1]["query"])
    }


def _names(cell: Cell, example: Mapping[str, np.ndarray]) -> list[str]:
    """The names of the task's classes, or their numbers if their names were not recorded."""
    names, way = list((cell.result.classes or {}).get("test", ())), len(example["support"])
    if not names or "classes" not in example:
        return [f"class {label + 1}" for label in range(way)]
    turned = [name + rotation for rotation in ROTATIONS for name in names]
    indices = example["classes"].tolist()
    if len(indices) != way or not all(index in range(len(turned)) for index in indices):
        raise RunError(f"{cell.folder / EXAMPLES} is damaged: it names other classes than those of the test split")
    return [turned[index] for index in indices]


def _protocol(group: Group) -> str:
    """How the accuracies were measured, and what they do and do not say."""
    cells = group.cells
    lengths = [cell.result.steps for cell in cells]
    tests = [cell.tests[0] for cell in cells if cell.tests]
    measured = (
        f"{format_range([cell.experiment.tested_way for cell in cells])}-way accuracy in per cent on "
        f"{format_range([test.tasks for test in tests])} test tasks with "
        f"{format_range([test.queries for test in tests])} queries per class, after "
        f"{format_range([cell.experiment.evaluation.inner_steps[-1] for cell in cells])} inner steps"
    )
    if not group.is_of_paper:
        trained = f"Training had {format_range(lengths)} outer iterations."
        intervals, choices = own_runs.describe_intervals(cells), own_runs.describe_choices(cells)
        return f"{measured}. {intervals} {BATCHES} {trained} {choices}"
    scale = (
        ""
        if min(lengths) >= PAPER_ITERATIONS
        else f" The experiment is scaled down: {format_range(lengths)} outer iterations, "
        f"where section 5.2 of the paper has {PAPER_ITERATIONS:,}."
    )
    return f"{measured}; 95 % intervals over tasks, and over seeds if there are several. {BATCHES}{scale}"
