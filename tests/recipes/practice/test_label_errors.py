"""The study of label errors: every judge sees the same images, and precision is what it says."""

import numpy as np
import pytest

from eigen_reptile.recipes.practice import label_errors
from eigen_reptile.recipes.practice.label_errors import LabelledFeatures
from eigen_reptile.recipes.study import Line, Panel, Study
from eigen_reptile.report.theory import StudyResult, table_by_x
from eigen_reptile.runtime.progress import no_progress


def noisy_clusters(way: int, per_class: int, rate: float) -> LabelledFeatures:
    rng = np.random.default_rng(0)
    true = np.repeat(np.arange(way), per_class)
    x = rng.normal(size=(way, 16))[true] + 0.5 * rng.normal(size=(len(true), 16))
    wrong = rng.random(len(true)) < rate
    return LabelledFeatures(x.astype(np.float32), true, np.where(wrong, (true + 1) % way, true))


def test_both_judges_find_wrong_labels_that_are_easy_to_find() -> None:
    pytest.importorskip("cleanlab")
    data = {"worse": noisy_clusters(4, 20, 0.2)}
    study = label_errors.label_errors(data, {"all classes": range(4)}, {8: 3}, 20, "about", no_progress)
    (panel,) = study.panels
    assert [line.name for line in panel.lines] == list(label_errors.JUDGES)
    for line in panel.lines:
        assert line.x == [8, 20]
        assert min(line.y) > (0.9 if line.name == "trust" else 0.5)


def test_every_judge_is_given_the_same_images_in_an_order_that_tells_nothing() -> None:
    data = noisy_clusters(3, 10, 0.3)
    seen = []

    def judge(x: np.ndarray, given: np.ndarray, way: int) -> np.ndarray:
        seen.append((x, given))
        return np.zeros(len(x))

    for _ in range(2):
        label_errors._judged(judge, data, per_class=4, draw=1, way=3)
    (first, labels), (again, same_labels) = seen
    np.testing.assert_array_equal(first, again)
    np.testing.assert_array_equal(labels, same_labels)
    rows = [int(np.flatnonzero((data.x == row).all(1))[0]) for row in first]
    assert np.bincount(data.true[rows]).tolist() == [4, 4, 4]
    assert (np.diff(data.true[rows]) < 0).any()


def test_classes_are_chosen_by_true_and_by_given_label() -> None:
    data = LabelledFeatures(np.arange(4, dtype=np.float32)[:, None], np.array([0, 1, 2, 2]), np.array([0, 2, 2, 1]))
    chosen = data.of_classes(range(1, 3))
    assert chosen.x[:, 0].tolist() == [1, 2, 3]
    assert chosen.true.tolist() == [0, 1, 1]
    assert chosen.given.tolist() == [1, 1, 0]


def test_symmetric_labels_are_wrong_at_the_rate_and_spread_over_all_other_classes() -> None:
    true = np.repeat(np.arange(4), 5000)
    given = label_errors.symmetric_labels(true, 4, 0.3, np.random.default_rng(0))
    counts = np.zeros((4, 4))
    np.add.at(counts, (true, given), 1)
    np.testing.assert_allclose(counts / 5000, np.where(np.eye(4) > 0, 0.7, 0.1), atol=0.03)


def test_a_label_that_cannot_be_judged_gets_the_average_trust() -> None:
    data = noisy_clusters(3, 5, 0.0)
    x, given = data.x[:11], data.given[:11]  # one sample of the last class
    scores = label_errors.by_trust(x, given, 3)
    assert scores[10] == pytest.approx(scores[:10].mean())


def test_a_study_without_claims_is_tabulated_with_a_row_for_each_line() -> None:
    lines = [Line("a", [5, 10], [0.5, 0.75], [0.1, 0.2]), Line("b", [10], [0.25], [0.05])]
    study = Study("title", "about", [Panel("panel", "images", "precision", lines)], [])
    assert StudyResult("heads", study, "origin").key == "practice-heads"
    table = table_by_x(study)
    assert list(table.headings) == ["", "", "images 5", "images 10"]
    assert [list(row) for row in table.rows] == [
        ["panel", "a", "0.5 ± 0.1", "0.75 ± 0.2"],
        ["panel", "b", "", "0.25 ± 0.05"],
    ]
