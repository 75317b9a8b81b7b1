"""The audit of labels on feature vectors, compared with plain loops."""

import csv
from pathlib import Path

import numpy as np
import pytest

from eigen_reptile.errors import ConfigError, DataError
from eigen_reptile.practice.audit.audit import Audit, audit_labels
from eigen_reptile.practice.audit.labels_csv import COLUMNS, write_labels

NAMES = np.array(["ant", "bee", "cat"])


def data(shots: int = 12, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features around a centre for each class, labels of which three are wrong, and the positions of these."""
    rng = np.random.default_rng(seed)
    right = np.repeat(np.arange(3), shots)
    features = rng.normal(size=(3, 20))[right] + 0.5 * rng.normal(size=(len(right), 20))
    wrong = np.array([1, shots + 2, 2 * shots + 3])
    given = right.copy()
    given[wrong] = (given[wrong] + 1) % 3
    return features, given, wrong


@pytest.fixture(scope="module")
def audit() -> Audit:
    features, given, _ = data()
    return audit_labels(features, NAMES[given])


def test_finds_wrong_labels_and_the_right_classes(audit: Audit) -> None:
    _, given, wrong = data()
    assert set(audit.suspects[:3]) == set(wrong.tolist())
    assert [audit.classes[audit.suggested[one]] for one in wrong] == NAMES[(given[wrong] - 1) % 3].tolist()
    assert audit.expected_wrong(3) == pytest.approx(3, abs=0.5)


def test_expected_number_is_the_sum_of_what_is_left_to_one(audit: Audit) -> None:
    first = sorted(audit.trust)[:7]
    assert audit.expected_wrong(7) == pytest.approx(sum(1 - trust for trust in first))
    assert audit.expected_wrong() == pytest.approx(len(audit.trust) - audit.trust.sum())


def test_evidence_is_the_most_similar_sample_with_the_suggested_label(audit: Audit) -> None:
    features, given, wrong = data()
    centred = features - features.mean(0)
    for one in wrong:
        others = [
            other for other in range(len(given)) if given[other] == audit.suggested[one] and other not in audit.suspects
        ]
        angles = [
            centred[one] @ centred[other] / np.linalg.norm(centred[one]) / np.linalg.norm(centred[other])
            for other in others
        ]
        assert audit.evidence[one] == others[int(np.argmax(angles))]
    assert (audit.evidence[audit.suggested == audit.given] == -1).all()


def test_typical_samples_have_their_label_and_are_trusted(audit: Audit) -> None:
    for number, samples in enumerate(audit.typical):
        assert len(samples) == 6
        assert {audit.given[one] for one in samples} == {number}
        assert not set(samples) & set(audit.suspects)


def test_every_label_is_a_suspect_if_that_is_asked_for() -> None:
    features, given, _ = data()
    audit = audit_labels(features, given, below=1.0)
    assert len(audit.suspects) == len(given)
    assert list(np.diff(audit.trust[audit.suspects]) >= 0) == [True] * (len(given) - 1)


def test_a_class_with_one_sample_is_not_judged() -> None:
    features, given, _ = data()
    audit = audit_labels(np.concatenate([features, features[:1]]), [*NAMES[given], "dodo"])
    assert np.isnan(audit.trust[-1])
    assert audit.not_judged == 1
    assert audit.order[-1] == len(given)
    last = list(audit.rows())[-1]
    assert (last.given, last.suggested, last.trust, last.evidence) == ("dodo", "dodo", None, None)
    assert np.isfinite(audit.expected_wrong())


def test_nothing_but_single_samples() -> None:
    audit = audit_labels(np.eye(3), ["a", "b", "c"])
    assert (audit.suspects, audit.not_judged, audit.expected_wrong()) == ([], 3, 0.0)


@pytest.mark.parametrize(
    ("labels", "below", "error", "message"),
    [
        ([0, 1], 0.8, ConfigError, "as many labels as samples, not 2 for 3"),
        ([], 0.8, ConfigError, "no labels"),
        ([0, 0, 0], 0.8, DataError, "only among several classes"),
        ([0, 1, 1], 0.0, ConfigError, "`below` must be above 0"),
        ([0, 1, 1], float("nan"), ConfigError, "`below` must be above 0"),
    ],
)
def test_says_what_is_wrong(labels: list[int], below: float, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        audit_labels(np.eye(3), labels, below)


def test_table_is_read_back(audit: Audit, tmp_path: Path) -> None:
    paths = [f'{audit.classes[number]}/{one}, "x".png' for one, number in enumerate(audit.given)]
    write_labels(tmp_path / "labels.csv", audit, paths)
    with (tmp_path / "labels.csv").open(newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    assert tuple(header) == COLUMNS
    assert [float(row[3]) for row in rows] == pytest.approx(np.sort(audit.trust), abs=1e-4)
    assert [row[0] for row in rows] == [paths[one] for one in audit.order]
    assert [row[4] for row in rows[:3]] == [paths[audit.evidence[one]] for one in audit.order[:3]]
    assert not list(tmp_path.glob(".*"))


def test_table_has_no_formulas_and_survives_odd_names(tmp_path: Path) -> None:
    names = ["=HYPERLINK(1)", "@sum", "-1", "+1", "a\nb;=c"]
    features = np.repeat(np.eye(5), 2, axis=0) + 0.01
    audit = audit_labels(features, np.repeat(names, 2))
    paths = [f"{name}/\udcff{place}.png" for name in np.repeat(names, 2) for place in ("x",)]
    write_labels(tmp_path / "labels.csv", audit, paths)
    with (tmp_path / "labels.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))[1:]
    assert len(rows) == 10
    for row in rows:
        assert not any(cell.startswith(("=", "+", "-", "@")) for cell in row)
        assert row[0].removeprefix("./").startswith(row[1].removeprefix("'"))
        assert "\\udcffx.png" in row[0]
