"""The adapted network, against the evaluation of the run whose network it is."""

from dataclasses import replace

import pytest
import torch

from eigen_reptile.data import Sine, TaskShape
from eigen_reptile.errors import ConfigError
from eigen_reptile.inner import InnerState
from eigen_reptile.methods import METHODS
from eigen_reptile.practice.heads import Support
from eigen_reptile.practice.heads.network import INTROSPECTION, AdaptedNetwork
from eigen_reptile.practice.out_of_sample import out_of_sample_predictions
from eigen_reptile.runtime.progress import no_progress
from eigen_reptile.tasks import Tasks
from eigen_reptile.training.config import Experiment
from eigen_reptile.training.evaluate import adapt_in_stages, draw_tasks
from eigen_reptile.training.presets import preset
from eigen_reptile.training.query_batches import predict_inductively
from eigen_reptile.training.setup import Setup, set_up
from eigen_reptile.training.state import TrainState
from patterns import Patterns

DATA = Patterns(classes=8, images=20, test_images=20, side=16)


def set_up_network(method: str) -> tuple[Setup, torch.Tensor, InnerState]:
    exp = preset(DATA, METHODS[method], filters=8)
    evaluation = replace(exp.evaluation, shots=(4,), queries=3, inner_steps=(6,), batch=None)
    exp = replace(exp, inner=replace(exp.inner, lr=0.01), evaluation=evaluation, compile="off", precision="float64")
    setup = set_up(exp, no_progress, "cpu", trains=False)
    state = TrainState.fresh(setup)
    return setup, state.theta, state.inner_state


def task_of(setup: Setup, theta: torch.Tensor, state: InnerState, numbers: list[int]) -> Tasks:
    initialisation = setup.initialisation(theta, state)
    return draw_tasks(setup.banks.test, initialisation, setup.exp.evaluation, "test", TaskShape(5, 4, 3), numbers)[0]


def as_support(tasks: Tasks) -> tuple[Support, torch.Tensor]:
    """Pixels as features: numbers from 0 to 1."""
    return Support(tasks.x[0].flatten(2).double() / 255, tasks.y[0], 5), tasks.query_x[0].flatten(2).double() / 255


@pytest.mark.parametrize("method", ["reptile", "maml", "prototypical"])
def test_logits_are_those_of_the_evaluation_of_the_run(method: str) -> None:
    """With the whole support in each step, so that no order is drawn."""
    setup, theta, state = set_up_network(method)
    tasks = task_of(setup, theta, state, [0, 1])
    support, queries = as_support(tasks)
    found = AdaptedNetwork(setup, theta, state).fit(support).logits(queries)
    initialisation = setup.initialisation(theta, state)
    _, batches = draw_tasks(setup.banks.test, initialisation, setup.exp.evaluation, "test", TaskShape(5, 4, 3), [0, 1])
    with torch.no_grad():
        adapted = next(adapt_in_stages(setup.network, initialisation, tasks, batches, (6,)))
        expected = predict_inductively(setup.network, setup.exp.method, adapted, tasks)[0]
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("selector", [None, INTROSPECTION])
def test_tasks_do_not_influence_each_other(selector: object) -> None:
    setup, theta, state = set_up_network("reptile")
    support, queries = as_support(task_of(setup, theta, state, [0, 1]))
    head = AdaptedNetwork(setup, theta, state, selector=selector)  # type: ignore[arg-type]
    together = head.fit(support).logits(queries)
    alone = head.fit(Support(support.x[1:], support.y[1:], 5)).logits(queries[1:])
    torch.testing.assert_close(together[1:], alone)


def test_another_number_of_classes_gets_a_new_last_layer() -> None:
    setup, theta, state = set_up_network("reptile")
    support, queries = as_support(task_of(setup, theta, state, [0]))
    some = support.y[0] < 3
    smaller = Support(support.x[:, some], support.y[:, some], 3)
    assert AdaptedNetwork(setup, theta, state).fit(smaller).logits(queries).shape == (1, 15, 3)


def test_leave_one_out_keeps_the_pixels() -> None:
    setup, theta, state = set_up_network("reptile")
    support, _ = as_support(task_of(setup, theta, state, [0]))
    head, (x, y) = AdaptedNetwork(setup, theta, state), (support.x, support.y)
    found = out_of_sample_predictions(head, support)
    for row in range(0, 20, 4):
        kept = torch.arange(20) != row
        assert found[row] == head.fit(Support(x[:, kept], y[:, kept], 5)).logits(x[:, row : row + 1]).argmax()


def test_features_that_are_not_the_pixels_are_refused() -> None:
    setup, theta, state = set_up_network("reptile")
    head = AdaptedNetwork(setup, theta, state)
    with pytest.raises(ConfigError, match=r"takes images of shape \(3, 16, 17\), not 7 features"):
        head.fit(Support(torch.zeros(1, 4, 7), torch.tensor([[0, 0, 1, 1]]), 2))
    assert len(str(head)) < 100  # which a card shows


def test_introspection_learns_from_other_batches_only_if_it_discards() -> None:
    """A selector that keeps everything learns from all samples, in turn."""
    setup, theta, state = set_up_network("reptile")
    support, _ = as_support(task_of(setup, theta, state, [0]))
    head = AdaptedNetwork(setup, theta, state)
    network, initialisation = head._for_way(5)
    tasks = head._tasks(support)
    batches = head._batches(tasks, 4, 10)
    keeps_all = replace(INTROSPECTION, gamma=float("inf"))
    kept = head._selected(keeps_all, network, initialisation, tasks, batches)
    assert kept.chosen.shape == batches.chosen.shape
    assert sorted(kept.chosen[0, 0, :2].flatten().tolist()) == list(range(20))
    discarding = replace(INTROSPECTION, gamma=1e-6, grown=False)
    few = head._selected(discarding, network, initialisation, tasks, batches)
    assert len(set(few.chosen.flatten().tolist())) == 5  # one batch of candidates is always kept


def test_a_run_without_classes_is_refused() -> None:
    setup = set_up(Experiment(data=Sine()), no_progress, "cpu", trains=False)
    state = TrainState.fresh(setup)
    with pytest.raises(ConfigError, match="has learnt no classes"):
        AdaptedNetwork(setup, state.theta, state.inner_state)
