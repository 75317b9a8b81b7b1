"""The sections of the report: text, table and figure about each group of results."""

from collections.abc import Sequence
from pathlib import Path

from eigen_reptile.methods import METHODS
from eigen_reptile.recipes import RECIPES
from eigen_reptile.report import figures, own_runs, tables
from eigen_reptile.report.claims import claims_table
from eigen_reptile.report.collect import Cell, Group
from eigen_reptile.report.image_sections import image_sections
from eigen_reptile.report.section import Section
from eigen_reptile.report.tables import format_range
from eigen_reptile.report.theory import StudyResult, study_table, table_by_x

CRITERIA = (
    "All comparisons are paired: every method had the same tasks and batches. On sine waves a claim holds if the 95 % "
    "interval of the difference over seeds lies on its side of zero. On images it must lie there both over test tasks "
    "(each averaged over the seeds), which distinguish the trained networks, and over seeds, which distinguish the "
    "methods. Faster means a lower validation error averaged over training; convergence means less than half of the "
    "validation error before training."
)
TUNING = (
    "In the recipes each method uses the learning rates that did best on validation tasks, chosen from the same "
    "candidates."
)
THEORY = (
    "A claim of the theory holds if its difference, with its interval, is below zero at every point that was tried."
)


def make_sections(groups: Sequence[Group], studies: Sequence[StudyResult], drawings: Path) -> list[Section]:
    """All sections of the report; their figures are drawn into a folder."""
    drawings.mkdir(parents=True, exist_ok=True)
    sections: list[Section] = []
    for group in groups:
        make = _regression_sections if group.measure == "squared error" else image_sections
        sections += make(group, drawings)
    for result in studies:
        study, figure = result.study, drawings / f"{result.key}.png"
        figures.plot_study(study.panels, figure)
        table = study_table(study) if study.findings else table_by_x(study)
        sections.append(Section(result.key, study.title, f"{study.about} ({result.provenance})", table, figure))
    of_paper = [group for group in groups if group.is_of_paper]
    if of_paper or studies:
        sections.append(_claims_section(of_paper, studies))
    text = "The command, version and environment that produced each result."
    table = tables.provenance_table(groups, "cell" if of_paper else "run")
    sections.append(Section("provenance", "Provenance", text, table))
    return sections


def _claims_section(groups: Sequence[Group], studies: Sequence[StudyResult]) -> Section:
    claims = claims_table(groups, studies)
    text = CRITERIA if claims else "These runs do not test any of the paper's claims."
    if claims and any(group.name in RECIPES for group in groups):
        text += f" {TUNING}"
    if studies:
        text += f" {THEORY}"
    return Section("claims", "The paper's claims", text, claims)


def _regression_sections(group: Group, drawings: Path) -> list[Section]:
    """Squared errors on sine waves (paper, section 5.1)."""
    cells, converged = group.cells, group.converged
    shots = format_range([shots for cell in cells for shots in cell.experiment.evaluation.shots])
    integral = " The integral is the paper's loss." if group.is_of_paper else ""
    one_seed = all(len(cell.experiment.seeds) == 1 for cell in cells)
    text = (
        f"Squared error over the whole curve after each number of inner steps on {shots} shots: "
        f"{'mean over tasks with one seed' if one_seed else 'mean and 95 % interval over seeds'}. "
        f"{_choices(cells)}{integral}"
    )
    sections = [Section(f"{group.name}-errors", f"{group.title}: error on test tasks", text, tables.error_table(cells))]
    if converged:
        figure = drawings / f"{group.name}-directions.png"
        figures.plot_learning_curves(group, figure)
        title = f"{group.title}: error during training"
        text = f"Validation error over the outer iterations{group.cited('figure 4')}."
        sections.append(Section(f"{group.name}-directions", title, text, figure=figure))
    pair = [cell for name in ("eigen-reptile", "reptile") if (cell := group.find(METHODS[name])) and cell.converged]
    if pair and all(len(cell.result.snapshots) == len(pair[0].result.snapshots) > 0 for cell in pair):
        figure = drawings / f"{group.name}-curves.png"
        figures.plot_fitted_curves(pair, figure)
        title, seed = f"{group.title}: fitted curves", pair[0].experiment.seeds[0]
        text = f"One task, seed {seed}, at several outer iterations{group.cited('figure 3')}."
        sections.append(Section(f"{group.name}-curves", title, text, figure=figure))
    if converged and any(len(cell.experiment.meta.lr) > 1 for cell in cells):
        figure = drawings / f"{group.name}-step-sizes.png"
        figures.plot_outer_step_sizes(cells, figure)
        title, text = f"{group.title}: outer step sizes", "Validation error after training, mean over seeds."
        sections.append(Section(f"{group.name}-step-sizes", title, text, tables.step_size_table(cells), figure))
    return sections


def _choices(cells: Sequence[Cell]) -> str:
    """What was chosen on validation tasks; in short, if the choice was the same for all."""
    if all(len(cell.experiment.meta.lr) > 1 and cell.experiment.meta.keep == "last" for cell in cells):
        return "The outer step size was chosen on validation tasks."
    return own_runs.describe_choices(cells)
