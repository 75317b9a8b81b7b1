"""Reading result files, and grouping them for the report."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import final

import numpy as np

from eigen_reptile.data import Folder
from eigen_reptile.errors import RunError
from eigen_reptile.methods import Method
from eigen_reptile.recipes import RECIPES, published
from eigen_reptile.runtime.text import printable
from eigen_reptile.training.config import Experiment
from eigen_reptile.training.evaluate import failed_as_wrong
from eigen_reptile.training.result import MeasureScores, Result, TestScores
from eigen_reptile.training.saved_result import read_result

MAX_RUNS_IN_TITLE = 3
"""Up to this number, runs are named; more are only counted."""


@final
@dataclass(frozen=True)
class Cell:
    """One finished experiment of a group."""

    name: str
    folder: Path
    result: Result

    @property
    def experiment(self) -> Experiment:
        return self.result.experiment

    @property
    def tests(self) -> tuple[TestScores, ...]:
        """Scores on test tasks, one entry for each number of shots; empty if they were not evaluated."""
        return self.result.test or ()

    @property
    def converged(self) -> bool:
        return self.result.choice is not None

    @property
    def chosen_lr(self) -> float:
        """The outer step size chosen on validation tasks; only for a cell that converged."""
        assert self.result.choice is not None
        return self.result.choice.lr

    @property
    def chosen_replicas(self) -> list[int]:
        """Indices of the replicas with the chosen step size, one for each seed."""
        return [number for number, replica in enumerate(self.experiment.replicas) if replica.lr == self.chosen_lr]

    def scores(self, shots: int, column: str) -> MeasureScores | None:
        """Test scores for a number of shots by one measure; None if there are none."""
        test = self.result.test_with(shots)
        return None if test is None else test.column(column)

    def final_scores(self) -> np.ndarray:
        """The test score of each seed for the first number of shots, by the last measure."""
        return np.array([row[-1] for row in self.tests[0].per_seed], dtype=float)

    def task_scores(self, shots: int, column: str) -> np.ndarray | None:
        """The score of each test task, averaged over the seeds; None if it was not stored."""
        scores = self.scores(shots, column)
        if scores is None or scores.per_task is None:
            return None
        per_task = failed_as_wrong(scores.per_task) if self.result.measure == "accuracy" else scores.per_task
        mean: np.ndarray = per_task.mean(0)
        return mean

    def learning_curve(self) -> tuple[np.ndarray, np.ndarray]:
        """Iterations, and the validation scores with the chosen step size (iterations x seeds)."""
        curve = self.result.learning_curve
        scores = [[row[replica] for replica in self.chosen_replicas] for row in curve.score]
        return np.array(curve.step), np.array(scores, dtype=float)

    @property
    def training_seconds(self) -> list[float] | None:
        """Training time at each point of the learning curve; None if it was not recorded everywhere."""
        recorded = [second for second in self.result.learning_curve.seconds if second is not None]
        return recorded if recorded and len(recorded) == len(self.result.learning_curve.step) else None

    def initial_spread(self) -> np.ndarray:
        """Standard deviation over x of each seed's curve before any inner step, in the last snapshot."""
        return np.array([np.std(curves[0]) for curves in self.result.snapshots[-1].curves if curves is not None])

    @property
    def has_final_snapshot(self) -> bool:
        """Whether there is a snapshot after the last iteration, with the curves of all replicas."""
        snapshots = self.result.snapshots
        last = self.experiment.meta.steps
        return self.converged and bool(snapshots) and snapshots[-1].step == last and None not in snapshots[-1].curves

    def final_validation(self, lr: float) -> tuple[list[float], int]:
        """Final validation scores with a step size, of the seeds that did not diverge, and the number that did."""
        replicas = [replica for replica in self.result.replicas if replica.lr == lr]
        finals = [replica.validation[-1] for replica in replicas if replica.validation is not None]
        scores = [score for score in finals if score is not None]
        return scores, len(replicas) - len(scores)


@final
@dataclass(frozen=True)
class Group:
    """The cells in one folder, for example those of one recipe."""

    name: str
    cells: tuple[Cell, ...]

    @property
    def is_of_paper(self) -> bool:
        """Whether the paper's claims are about these data; if not, they are somebody's own runs."""
        return isinstance(self.cells[0].experiment.data, published.DATA)

    @property
    def title(self) -> str:
        """What headings call it: its name and, if they are own runs and not too many, theirs."""
        names = [cell.name for cell in self.cells]
        if self.is_of_paper or names == [self.name]:
            return self.name
        runs = ", ".join(names) if len(names) <= MAX_RUNS_IN_TITLE else f"{len(names)} runs"
        return f"{self.name} ({runs})"

    def cited(self, place: str) -> str:
        """A place in the paper, to be appended to a sentence; nothing for own runs."""
        return f" (paper, {place})" if self.is_of_paper else ""

    @property
    def measure(self) -> str:
        return self.cells[0].result.measure

    @property
    def converged(self) -> list[Cell]:
        return [cell for cell in self.cells if cell.converged]

    @property
    def varies_inner_steps(self) -> bool:
        """Whether all cells use the same method, with more than two different numbers of inner steps."""
        one_method = len({cell.experiment.method for cell in self.cells}) == 1
        return one_method and len({cell.experiment.inner.steps for cell in self.cells}) > 2

    def find(self, method: Method) -> Cell | None:
        """The cell that used this method."""
        return next((cell for cell in self.cells if cell.experiment.method == method), None)


def collect_results(folder: Path, required: bool = True) -> list[Group]:
    """All results below a folder, grouped by their parent folder, measure and data, and sorted by name.

    A single run that is, or lies directly in, the folder gives its name to its group. RunError if a result cannot be
    read, or if there are none although `required`.
    """
    files = sorted(folder.glob("**/result.json"))
    if required and not files:
        raise RunError(f"no result.json below {folder}: train something in this folder first")
    cells = sorted(map(read_cell, files), key=_folder_measure_and_data)
    groups = [tuple(members) for _, members in groupby(cells, key=_folder_measure_and_data)]
    names = [printable(_group_name(members, folder.resolve())) for members in groups]
    unique = [name if names.count(name) == 1 else f"{name}-{number}" for number, name in enumerate(names, 1)]
    return [Group(name, members) for name, members in zip(unique, groups, strict=True)]


def _folder_measure_and_data(cell: Cell) -> tuple[Path, str, str]:
    """Own runs on different data have nothing in common; the data sets of the paper's recipes are not distinguished."""
    data = cell.experiment.data
    place = data.root if isinstance(data, Folder) else ""
    own = "" if isinstance(data, published.DATA) else f"{type(data).__name__} {place}"
    return cell.folder.resolve().parent, cell.result.measure, own


def _group_name(cells: Sequence[Cell], results: Path) -> str:
    run = cells[0].folder.resolve()
    has_own_folder = run.parent != results and run.parent.is_relative_to(results)
    if len(cells) == 1 and not (has_own_folder or run.parent.name in RECIPES):
        return run.name
    return run.parent.name or "results"


def read_cell(file: Path) -> Cell:
    """The result in a file; RunError if it cannot be read."""
    return Cell(printable(file.parent.name), file.parent, read_result(file))


def shots_and_columns(cells: Sequence[Cell]) -> list[tuple[int, str]]:
    """Every pair of shots and measure by which some cell was tested."""
    found = [(test.shots, column) for cell in cells for test in cell.tests for column in test.columns]
    return list(dict.fromkeys(found))
