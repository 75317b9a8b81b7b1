"""The measured noise agrees with the configured one."""

from pathlib import Path

import numpy as np
import pytest

from eigen_reptile.data import Sine, TaskShape
from eigen_reptile.errors import DataError
from eigen_reptile.noise import NoiseConfig, measure_noise
from eigen_reptile.runtime.progress import no_progress
from pixel_bank import CLASSES, KNOWN, NAMES, matrix_rows, pixel_bank, write_csv

TASK = TaskShape(4, 5, 0)


def test_noise_of_a_bank_is_measured_on_all_its_labels() -> None:
    found = measure_noise(pixel_bank(), NoiseConfig("asymmetric", 0.4, "bank"), KNOWN, TASK, labels=1)
    assert found.names == NAMES
    assert found.counts.sum(1).tolist() == [50] * CLASSES
    assert found.rate == pytest.approx(0.4, abs=0.06)
    assert np.count_nonzero(found.counts) <= 2 * CLASSES  # a class is only given its own label or the next one


@pytest.mark.parametrize("where", ["task", "draw"])
def test_noise_by_a_rule_is_measured_by_position_in_the_task(where: str) -> None:
    noise = NoiseConfig("symmetric", 0.3, where)  # type: ignore[arg-type]
    found = measure_noise(pixel_bank(), noise, KNOWN, TASK, labels=19_999)
    assert found.names == [f"class {position} of a task" for position in (1, 2, 3, 4)]
    assert found.counts.sum() == 20_000  # whole tasks of 20 labels
    assert found.rate == pytest.approx(0.3, abs=0.015)
    off_diagonal = found.counts[~np.eye(4, dtype=bool)] / 5000
    np.testing.assert_allclose(off_diagonal, 0.1, atol=0.02)


def test_noise_by_a_matrix_is_measured_by_class(tmp_path: Path) -> None:
    matrix = np.roll(np.eye(CLASSES), 1, axis=1)
    noise = NoiseConfig("matrix", 1.0, "task", file=write_csv(tmp_path, matrix_rows(matrix, NAMES)))
    found = measure_noise(pixel_bank(), noise, KNOWN, TASK, labels=4000)
    assert found.names == NAMES
    allowed = (matrix + np.eye(CLASSES)).astype(bool)  # a label stays clean if the next class is not in the task
    assert found.counts[~allowed].sum() == 0
    assert 0.1 < found.rate < 0.25  # the next class is among the other 3 of a task with probability 3/19


def test_regression_has_no_label_noise() -> None:
    with pytest.raises(DataError, match="class labels"):
        measure_noise(Sine().load(no_progress).train, NoiseConfig("symmetric", 0.3), set(), TASK, 10)
