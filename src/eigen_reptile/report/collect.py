"""Result files as the report reads them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from eigen_reptile.config import Experiment, from_json
from eigen_reptile.experiment import RESULT_FORMAT
from eigen_reptile.methods import Method
from eigen_reptile.runs import RunError, read_json


@dataclass(frozen=True)
class Cell:
    """One finished experiment."""

    name: str
    experiment: Experiment
    result: dict[str, Any]

    @property
    def test(self) -> dict[str, Any]:
        """Errors on test tasks; a cell in which all lanes diverged has none, see `converged`."""
        test: dict[str, Any] = self.result["test"]
        return test

    @property
    def converged(self) -> bool:
        return self.result["test"] is not None

    @property
    def chosen(self) -> list[int]:
        """The lanes with the chosen step size, one for each seed."""
        lr = self.result["choice"]["lr"]
        return [number for number, lane in enumerate(self.experiment.lanes) if lane.lr == lr]

    def final_errors(self) -> np.ndarray:
        """Each seed's test error after the last inner step."""
        return np.array([row[-1] for row in self.test["per_seed"]])

    def learning_curve(self) -> tuple[np.ndarray, np.ndarray]:
        """Iterations, and each seed's validation error there (iterations x seeds), with the chosen step size."""
        history = self.result["history"]
        errors = [[line[lane] for lane in self.chosen] for line in history["error"]]
        return np.array(history["step"]), np.array(errors, dtype=float)

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
        """Final validation errors of the seeds that did not diverge with this step size, and how many did."""
        lanes = [lane for lane in self.result["lanes"] if lane["lr"] == lr]
        errors = [lane["validation"][-1] for lane in lanes if lane["validation"] is not None]
        return errors, len(lanes) - len(errors)


def collect(folder: Path) -> list[Cell]:
    """All results below the folder, by name. RunError if there are none or one cannot be read."""
    files = sorted(folder.glob("**/result.json"))
    if not files:
        raise RunError(f"no result.json below {folder}: train something there first")
    cells = []
    for file in files:
        result = read_json(file)
        if not isinstance(result, dict) or result.get("format") != RESULT_FORMAT:
            raise RunError(f"{file} is not a result of this version (format {RESULT_FORMAT})")
        try:
            missing = {"lanes", "choice", "history", "pictures", "test", "seconds", "environment"} - result.keys()
            if missing:
                raise ValueError(f"it lacks {', '.join(sorted(missing))}")
            experiment = from_json(result["experiment"])
        except (KeyError, ValueError) as error:
            raise RunError(f"{file} cannot be understood: {error}") from error
        cells.append(Cell(file.parent.name, experiment, result))
    return cells


def find(cells: list[Cell], method: Method) -> Cell | None:
    """The cell that used this method."""
    return next((cell for cell in cells if cell.experiment.method == method), None)
