"""Transition matrices have the right probabilities, whether they come from a rule or from a file."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from eigen_reptile.errors import DataError
from eigen_reptile.noise import NoiseConfig, class_transition_matrix, flip_labels, task_transition_matrix
from pixel_bank import KNOWN, NAMES, matrix_rows, write_csv


@settings(max_examples=50, deadline=None)
@given(
    st.integers(2, 8),
    st.floats(0, 1, allow_subnormal=False),
    st.sampled_from(["symmetric", "asymmetric"]),
    st.integers(0, 2**32),
)
def test_rows_sum_to_one_and_flipped_labels_are_classes_of_the_task(
    classes: int, rate: float, kind: str, seed: int
) -> None:
    matrix = task_transition_matrix(NoiseConfig(kind, rate), classes)  # type: ignore[arg-type]
    np.testing.assert_allclose(matrix.sum(1), 1)
    np.testing.assert_allclose(matrix.diagonal(), 1 - rate)
    rng = np.random.default_rng(seed)
    y = rng.integers(classes, size=(3, 40))
    noisy = flip_labels(y, np.broadcast_to(matrix, (3, classes, classes)), rng.random(y.shape))
    assert noisy.min() >= 0
    assert noisy.max() < classes


def test_a_single_class_cannot_be_flipped() -> None:
    assert task_transition_matrix(NoiseConfig("symmetric", 0.5), 1).tolist() == [[1.0]]


def test_a_label_is_drawn_by_the_cumulative_probabilities_of_its_row() -> None:
    matrix = np.array([[0.2, 0.3, 0.5], [0.0, 1.0, 0.0], [0.5, 0.0, 0.5]])
    uniform = np.array([0.0, 0.19, 0.21, 0.49, 0.51, 0.99])
    assert flip_labels(np.zeros(6, dtype=np.int64), matrix, uniform).tolist() == [0, 0, 1, 1, 2, 2]
    assert flip_labels(np.full(6, 1), matrix, uniform).tolist() == [1] * 6
    assert flip_labels(np.full(6, 2), matrix, uniform).tolist() == [0, 0, 0, 0, 2, 2]


@pytest.mark.parametrize("rate", [None, 0.5])
@pytest.mark.parametrize("counts", [False, True])
def test_a_file_is_restricted_to_the_training_classes(tmp_path: Path, counts: bool, rate: float | None) -> None:
    """The file has 26 classes, of which the last 6 are not training classes; a rate of 0.5 keeps half of the labels."""
    names = [f"class-{number:02d}" for number in range(26)]
    weights = np.random.default_rng(0).random((26, 26)) + 10 * np.eye(26)
    matrix = weights / weights.sum(1, keepdims=True)
    file = write_csv(tmp_path, matrix_rows((1e6 * matrix).round().astype(int) if counts else matrix, names))
    inside = matrix[:20, :20] / matrix[:20, :20].sum(1, keepdims=True)
    expected = inside if rate is None else (np.eye(20) + inside) / 2
    found = class_transition_matrix(NoiseConfig("matrix", rate, "bank", file=file), NAMES, set(names))
    np.testing.assert_allclose(found, expected, atol=1e-5 if counts else 1e-12)


def test_probability_of_other_splits_is_discarded_and_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    rows: list[list[object]] = [[" ", "a", " b", "c "], [" a", 0.3334, 0.3333, 0.3333], ["b", 0, 1, 0]]
    noise = NoiseConfig("matrix", where="bank", file=write_csv(tmp_path, rows))
    found = class_transition_matrix(noise, ["a", "b"], {"a", "b", "c"})
    np.testing.assert_allclose(found, [[0.5, 0.5], [0.0, 1.0]], atol=1e-3)
    assert f"16.7 % of the probability in {noise.file} goes to classes of other splits" in caplog.text


def test_a_class_without_training_class_to_go_to_is_rejected(tmp_path: Path) -> None:
    rows: list[list[object]] = [["", "a", "b", "c"], ["a", 0, 0, 1], ["b", 0, 1, 0]]
    noise = NoiseConfig("matrix", where="bank", file=write_csv(tmp_path, rows))
    with pytest.raises(DataError, match="assigns all images of a to classes that are not training classes"):
        class_transition_matrix(noise, ["a", "b"], {"a", "b", "c"})


BAD_TABLES: dict[str, Sequence[Sequence[object]]] = {
    "add up to 0.9": [["", "class-00", "class-01"], ["class-00", 0.5, 0.4], ["class-01", 0, 1]],
    "add up to 2": [["", "class-00", "class-01"], ["class-00", 1, 1], ["class-01", 0, 1]],
    "two columns with the same name": [["", "class-00", "class-00"], ["class-00", 1, 0]],
    "no class named 'class-98'": [["", "class-00"], ["class-00", 1], ["class-98", 1]],
    "no column for 19": [["", "class-00"], *[[name, 1] for name in NAMES]],
    "no class named 'class-99'": [["", "class-00", "class-99"], ["class-00", 0.5, 0.5]],
    "not negative": [["", "class-00", "class-01"], ["class-00", 1.5, -0.5], ["class-01", 0, 1]],
    "no row for 19": [["", "class-00"], ["class-00", 1]],
    "values for 2 classes": [["", "class-00", "class-01"], ["class-00", 1]],
    "second row": [["", "class-00"], ["class-00", 1], ["class-00", 1]],
    "could not convert": [["", "class-00"], ["class-00", "many"]],
    "is empty": [["", "class-00"]],
}


@pytest.mark.parametrize("problem", BAD_TABLES)
def test_invalid_tables_are_rejected(problem: str, tmp_path: Path) -> None:
    noise = NoiseConfig("matrix", where="bank", file=write_csv(tmp_path, BAD_TABLES[problem]))
    with pytest.raises(DataError, match=problem):
        class_transition_matrix(noise, NAMES, KNOWN)


def test_missing_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"missing\.csv not found: set `noise\.file`"):
        class_transition_matrix(NoiseConfig("matrix", file=tmp_path / "missing.csv"), NAMES, KNOWN)
