"""The report on wrong labels in the support of test tasks."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from eigen_reptile.data import CifarFs
from eigen_reptile.noise import SupportNoise
from eigen_reptile.recipes.published import TRANFS
from eigen_reptile.report import figures
from eigen_reptile.report.collect import Cell, Group
from eigen_reptile.report.section import Section
from eigen_reptile.report.table import Table
from eigen_reptile.training.config import Experiment

KINDS: tuple[SupportNoise, ...] = ("symmetric", "paired", "outlier")
COLUMN = "inductive"
"""Somebody who adapts to a few samples classifies one query at a time."""
ABOUT = (
    "Accuracy in per cent, each query in a batch with the support only, with 95 % intervals over tasks. Each class "
    "has the same number of wrong support labels, the same for all methods; queries are clean."
)
PUBLISHED = (
    "Published accuracies (Liang et al. 2022) are beside them for their fall, not for their height: they are on "
    "mini-ImageNet and 10,000 tasks, after longer training, and TraNFS was trained with wrong labels in the support."
)


def noisy_tests(group: Group, kind: SupportNoise) -> dict[str, dict[float, Cell]]:
    """For each training that was tested under this kind of noise, by its name: its tests by rate, 0 included."""
    trainings: dict[Experiment, dict[float, Cell]] = {}
    for cell in sorted(group.cells, key=lambda cell: cell.experiment.evaluation.support_rate):
        evaluation = cell.experiment.evaluation
        if cell.tests and evaluation.support_noise in (kind, "none"):
            trainings.setdefault(_without_support_noise(cell.experiment), {})[evaluation.support_rate] = cell
    return {cells[min(cells)].name: cells for cells in trainings.values() if max(cells) > 0}


def _without_support_noise(exp: Experiment) -> Experiment:
    return replace(exp, evaluation=replace(exp.evaluation, support_noise="none", support_rate=0.0))


def support_noise_sections(group: Group, drawings: Path) -> list[Section]:
    """A table and a figure for each kind of noise and each number of shots."""
    sections = []
    for kind in KINDS:
        found = noisy_tests(group, kind)
        for shots in sorted({test.shots for cells in found.values() for cell in cells.values() for test in cell.tests}):
            beside = _published(group, kind, shots)
            name = f"{group.name}-support-{kind}-{shots}"
            figure = drawings / f"{name}.png"
            lines = {training: list(cells.items()) for training, cells in found.items()}
            figures.plot_accuracy_over_noise(lines, "the support", shots, COLUMN, figure)
            title = f"{group.title}: {kind} noise in the support, {shots}-shot"
            text = f"{ABOUT} {PUBLISHED}" if beside else ABOUT
            sections.append(Section(name, title, text, _table(found, shots, beside), figure))
    return sections


def _published(group: Group, kind: SupportNoise, shots: int) -> Mapping[str, Mapping[float, float]]:
    """What others have published that comes closest: photographs of objects, symmetric noise, five shots."""
    photographs = isinstance(group.cells[0].experiment.data, CifarFs)
    return TRANFS if photographs and kind == "symmetric" and shots == 5 else {}


def _table(found: Mapping[str, Mapping[float, Cell]], shots: int, beside: Mapping[str, Mapping[float, float]]) -> Table:
    rates = sorted({rate for row in (*found.values(), *beside.values()) for rate in row})
    rows = [[name, *(_accuracy(cells.get(rate), shots) for rate in rates)] for name, cells in found.items()]
    rows += [
        [f"{name}, published", *(f"{row[rate]:.1f}" if rate in row else "" for rate in rates)]
        for name, row in beside.items()
    ]
    return Table.of(["cell", *(f"{100 * rate:g} % wrong" for rate in rates)], rows)


def _accuracy(cell: Cell | None, shots: int) -> str:
    scores = None if cell is None else cell.scores(shots, COLUMN)
    if scores is None:
        return ""
    half = "" if scores.ci95_tasks is None else f" ± {100 * scores.ci95_tasks:.1f}"
    return f"{100 * scores.mean:.1f}{half}"
