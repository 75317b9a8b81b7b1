"""Result files as the report reads them."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from eigen_reptile.config import Experiment, from_json
from eigen_reptile.files import RunError, read_json
from eigen_reptile.methods import Method
from eigen_reptile.result import RESULT_FORMAT

PARTS = {"measure", "steps", "lanes", "choice", "history", "pictures", "test", "seconds", "environment"}


@dataclass(frozen=True)
class Cell:
    """One finished experiment."""

    name: str
    folder: Path
    experiment: Experiment
    result: dict[str, Any]

    @property
    def tests(self) -> list[dict[str, Any]]:
        """Scores on test tasks, one entry for each number of shots; none if they were not touched."""
        return self.result["test"] or []

    @property
    def converged(self) -> bool:
        return self.result["choice"] is not None

    @property
    def chosen(self) -> list[int]:
        """The lanes with the chosen step size, one for each seed."""
        lr = self.result["choice"]["lr"]
        return [number for number, lane in enumerate(self.experiment.lanes) if lane.lr == lr]

    def final_scores(self) -> np.ndarray:
        """Each seed's test score with the first number of shots, by the measure that decides."""
        return np.array([row[-1] for row in self.tests[0]["per_seed"]])

    def task_scores(self, shots: int, column: str) -> np.ndarray | None:
        """Each test task's score, averaged over the seeds; None if it was not kept."""
        test = next((test for test in self.tests if test["shots"] == shots), None)
        if test is None or test["per_task"] is None or column not in test["columns"]:
            return None
        scores: np.ndarray = np.array(test["per_task"][test["columns"].index(column)]).mean(0)
        return scores

    def learning_curve(self) -> tuple[np.ndarray, np.ndarray]:
        """Iterations, and each seed's validation score there (iterations x seeds), with the chosen step size."""
        history = self.result["history"]
        scores = [[line[lane] for lane in self.chosen] for line in history["score"]]
        return np.array(history["step"]), np.array(scores, dtype=float)

    @property
    def training_seconds(self) -> list[float] | None:
        """How long training had taken at each point of the learning curve; None where that was not kept."""
        seconds: list[float | None] = self.result.get("training_seconds", [None])
        return None if None in seconds else [second for second in seconds if second is not None]

    def initial_spread(self) -> np.ndarray:
        """Standard deviation over x of each seed's curve before any inner step, after the last pictured iteration."""
        return np.array([np.std(curves[0]) for curves in self.result["pictures"][-1]["curves"]])

    @property
    def pictured_to_the_end(self) -> bool:
        """Whether the finished initialisation was pictured, in all its lanes."""
        pictures = self.result["pictures"]
        last = self.experiment.meta.steps
        return self.converged and bool(pictures) and pictures[-1]["step"] == last and None not in pictures[-1]["curves"]

    def validation(self, lr: float) -> tuple[list[float], int]:
        """Final validation scores of the seeds that did not diverge with this step size, and how many did."""
        lanes = [lane for lane in self.result["lanes"] if lane["lr"] == lr]
        scores = [lane["validation"][-1] for lane in lanes if lane["validation"] is not None]
        return scores, len(lanes) - len(scores)


@dataclass(frozen=True)
class Group:
    """The cells that lie in one folder, as those of one recipe do."""

    name: str
    cells: tuple[Cell, ...]

    @property
    def measure(self) -> str:
        measure: str = self.cells[0].result["measure"]
        return measure

    @property
    def converged(self) -> list[Cell]:
        return [cell for cell in self.cells if cell.converged]

    @property
    def varies_inner_steps(self) -> bool:
        """Whether it is one method with several numbers of inner steps."""
        one_method = len({cell.experiment.method for cell in self.cells}) == 1
        return one_method and len({cell.experiment.inner.steps for cell in self.cells}) > 2

    def find(self, method: Method) -> Cell | None:
        """The cell that used this method."""
        return next((cell for cell in self.cells if cell.experiment.method == method), None)


def collect(folder: Path, needed: bool = True) -> list[Group]:
    """All results below the folder, those of one measure in one folder together, by name.

    RunError if one cannot be read, or if there are none and some are needed.
    """
    files = sorted(folder.glob("**/result.json"))
    if needed and not files:
        raise RunError(f"no result.json below {folder}: train something there first")
    cells = sorted(map(read_cell, files), key=_place)
    groups = [(place, tuple(found)) for place, found in groupby(cells, key=_place)]
    names = [parent.name or "results" for (parent, _), _ in groups]
    unique = [name if names.count(name) == 1 else f"{name}-{number}" for number, name in enumerate(names, 1)]
    return [Group(name, found) for name, (_, found) in zip(unique, groups, strict=True)]


def _place(cell: Cell) -> tuple[Path, str]:
    return cell.folder.resolve().parent, cell.result["measure"]


def read_cell(file: Path) -> Cell:
    """One result; RunError if it cannot be read."""
    result = read_json(file)
    if not isinstance(result, dict) or result.get("format") != RESULT_FORMAT:
        raise RunError(f"{file} is not a result of this version (format {RESULT_FORMAT})")
    try:
        if missing := PARTS - result.keys():
            raise ValueError(f"it lacks {', '.join(sorted(missing))}")
        experiment = from_json(result["experiment"])
    except (KeyError, ValueError) as error:
        raise RunError(f"{file} cannot be understood: {error}") from error
    return Cell(file.parent.name, file.parent, experiment, result)


def shots_and_columns(cells: Sequence[Cell]) -> list[tuple[int, str]]:
    """Every measure that some cell was tested by."""
    found = [(test["shots"], column) for cell in cells for test in cell.tests for column in test["columns"]]
    return list(dict.fromkeys(found))
