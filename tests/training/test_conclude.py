"""From trained replicas to a result: the choice of a step size and the summary of test scores."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from eigen_reptile.inner import InnerState
from eigen_reptile.runtime.environment import current_environment
from eigen_reptile.runtime.progress import no_progress
from eigen_reptile.runtime.run_folder import NoRunFolder
from eigen_reptile.training.conclude import choose_step_size, conclude, summarise_scores
from eigen_reptile.training.evaluate import Initialisation, Scores
from eigen_reptile.training.held_out import validate
from eigen_reptile.training.setup import set_up
from eigen_reptile.training.state import TrainState
from patterns import SMALL


@pytest.mark.parametrize(
    ("errors", "lr", "position"),
    [
        ({0.1: 3.0, 0.2: 1.0, 0.5: 2.0}, 0.2, "inside the grid"),
        ({0.1: 3.0, 0.2: 1.0, 0.5: None}, 0.2, "the next step size diverges"),
        ({0.1: 3.0, 0.2: 1.0}, 0.2, "upper end of the grid"),
        ({0.1: 0.5, 0.2: 1.0}, 0.1, "lower end of the grid"),
        ({0.1: 0.5}, 0.1, "only one step size"),
    ],
)
def test_choice_among_step_sizes(errors: dict[float, float | None], lr: float, position: str) -> None:
    accuracies = {rate: None if error is None else -error for rate, error in errors.items()}
    for scores, higher_is_better in ((errors, False), (accuracies, True)):
        choice = choose_step_size(scores, higher_is_better)
        assert choice is not None
        assert (choice.lr, choice.position) == (lr, position)
        assert choice.validation == scores[lr]


def test_no_choice_if_all_diverge() -> None:
    assert choose_step_size({0.1: None, 0.2: None}, higher_is_better=False) is None


def test_a_summary_is_means_and_students_intervals() -> None:
    values = np.random.default_rng(0).random((3, 5, 2))
    found = summarise_scores(Scores(("inductive", "transductive"), values), 1, 15)
    assert (found.shots, found.queries, found.tasks, found.columns) == (1, 15, 5, ("inductive", "transductive"))
    for column in range(2):
        seeds, tasks = values[:, :, column].mean(1), values[:, :, column].mean(0)
        assert found.mean[column] == pytest.approx(seeds.mean(), rel=1e-5)
        assert [row[column] for row in found.per_seed] == pytest.approx(seeds, rel=1e-5)
        for half_widths, some in ((found.ci95_seeds, seeds), (found.ci95_tasks, tasks)):
            low, high = stats.t.interval(0.95, len(some) - 1, loc=0, scale=stats.sem(some))
            assert half_widths[column] == pytest.approx((high - low) / 2, rel=1e-5)
        assert found.per_task is not None
        np.testing.assert_allclose(np.array(found.per_task[column], dtype=float), values[:, :, column], rtol=1e-3)
    assert summarise_scores(Scores(("inductive",), values[:1, :, :1]), 1, 15).ci95_seeds == (None,)


def test_scores_that_are_not_finite_are_none() -> None:
    values = np.ones((2, 3, 1))
    values[0, 1] = np.nan
    found = summarise_scores(Scores(("5 steps",), values), 10, 50)
    assert found.mean == found.ci95_seeds == (None,)
    assert found.per_seed == ((None,), (1.0,))
    assert found.per_task == (((1.0, None, 1.0), (1.0, 1.0, 1.0)),)


def test_the_choice_has_the_interval_of_its_validation_score_over_tasks() -> None:
    setup = set_up(replace(SMALL, meta=replace(SMALL.meta, keep="last", lr=(0.5, 1.0))), no_progress)
    state = TrainState.fresh(setup)
    choice = conclude(setup, state, NoRunFolder(), [], current_environment(setup.device)).choice
    assert choice is not None
    inner_state = InnerState(*(part[:2] for part in state.inner_state))  # of one step size, with both seeds
    first = Initialisation(state.theta[:2], inner_state, SMALL.inner, SMALL.method)
    tasks = validate(setup, first, SMALL.evaluation.tasks, lambda *_: None).values[:, :, -1].mean(0)
    assert choice.validation == pytest.approx(tasks.mean(), rel=1e-5)
    assert choice.ci95_tasks == pytest.approx(stats.t.ppf(0.975, 3) * stats.sem(tasks), rel=1e-5)


def test_failed_tasks_are_counted_for_each_seed_and_measure() -> None:
    values = np.full((2, 4, 2), 0.5)
    assert summarise_scores(Scores(("inductive", "transductive"), values), 1, 15).failed is None
    values[0, 1:3, 0] = values[1, 0] = np.nan
    found = summarise_scores(Scores(("inductive", "transductive"), values), 1, 15)
    assert found.failed == ((2, 0), (1, 1))
    assert found.per_seed == ((0.25, 0.5), (0.375, 0.375))
    assert found.mean == (0.3125, 0.4375)
    assert found.per_task is not None
    assert found.per_task[0] == ((0.5, None, None, 0.5), (None, 0.5, 0.5, 0.5))
    scores = found.column("inductive")
    assert scores is not None
    assert (scores.failed, scores.tasks) == (3, 8)
    values[0] = np.nan
    found = summarise_scores(Scores(("inductive", "transductive"), values), 1, 15)
    assert found.mean == found.ci95_tasks == (None, None)
    assert found.failed == ((4, 4), (1, 1))
