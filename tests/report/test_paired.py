"""Paired differences against the textbook formula."""

import math

import numpy as np
import pytest
from hypothesis import assume, example, given, settings, strategies as st
from scipy import stats

from eigen_reptile.report.paired import paired_difference
from report.shared import students_formula

answers = st.integers(0, 75)
"""Correct predictions among 15 queries for each of five classes."""


@settings(deadline=None)
@given(st.lists(st.tuples(answers, answers), min_size=2, max_size=40))
@example([(40, 30), (75, 65), (20, 10)])  # equal differences, apart from rounding
def test_the_paired_difference_is_students_formula(pairs: list[tuple[int, int]]) -> None:
    first, second = np.array(pairs).T / 75
    found = paired_difference(first, second)
    assert found.pairs == len(pairs)
    assert (found.first, found.second) == pytest.approx((first.mean(), second.mean()))
    counts = [a - b for a, b in pairs]
    if len(set(counts)) == 1:  # no spread to test against: all differences are equal
        assert found.difference == pytest.approx(counts[0] / 75, abs=1e-12)
        assert found.ci95 == pytest.approx(0, abs=1e-12)
        assert found.p == pytest.approx(float(counts[0] == 0), abs=1e-6)
    else:
        expected = students_formula([count / 75 for count in counts])
        assert (found.difference, found.ci95) == pytest.approx(expected[:2], abs=1e-12)
        assert found.p == pytest.approx(expected[2], rel=1e-6, abs=1e-12)
        assert found.p == pytest.approx(float(stats.ttest_1samp(first - second, 0).pvalue), rel=1e-6, abs=1e-12)


@settings(deadline=None)
@given(st.lists(st.tuples(answers, answers), min_size=2, max_size=10))
def test_exchanging_the_sides_only_changes_the_sign(pairs: list[tuple[int, int]]) -> None:
    assume(len({a - b for a, b in pairs}) > 1)
    first, second = np.array(pairs).T / 75
    one, other = paired_difference(first, second), paired_difference(second, first)
    reversed_ = other._replace(first=other.second, second=other.first, difference=-other.difference)
    assert one == pytest.approx(reversed_)


def test_one_pair_is_never_significant() -> None:
    found = paired_difference(np.array([0.9]), np.array([0.1]))
    assert found.difference == pytest.approx(0.8)
    assert math.isinf(found.ci95)
    assert not found.p < 0.05
