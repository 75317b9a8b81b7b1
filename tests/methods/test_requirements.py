"""Requirements: consistent in themselves, and through wrappers; and the samples that follow from them."""

from dataclasses import replace

import pytest
import torch

from eigen_reptile.inner import InnerConfig
from eigen_reptile.methods import METHODS, Ispl, Method, RobustLoss, SampleSelector, SelfPaced, WithSampleSelection
from eigen_reptile.methods.method import initial_theta
from eigen_reptile.nn import Conv4
from eigen_reptile.runtime.progress import no_progress
from eigen_reptile.tasks import TaskConfig
from eigen_reptile.training.config import Experiment
from eigen_reptile.training.loop import samples_per_task
from eigen_reptile.training.setup import set_up
from meta_batches import image_experiment
from patterns import Patterns

INNER = InnerConfig(steps=7, batch=10)
PLAIN = {name: method for name, method in METHODS.items() if not method.requirements.distinct_samples}
WITH_INNER_LOOP = {name: method for name, method in PLAIN.items() if method.requirements.inner_loop}


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS.keys())
def test_requirements_do_not_contradict_each_other(method: Method) -> None:
    needs = method.requirements
    assert needs.min_tasks >= 1
    assert needs.batches_to_draw(INNER) >= INNER.steps
    assert not (needs.flexible_way and needs.inner_loop), "the inner loop adapts an output for each class"
    assert not (needs.distinct_samples and not needs.inner_loop)
    assert not (needs.supports_epochs and not needs.classification_only)
    assert (needs.selection_samples(INNER) > 0) == needs.distinct_samples


@pytest.mark.parametrize("method", PLAIN.values(), ids=PLAIN.keys())
def test_extra_parameters_come_after_those_of_the_network(method: Method) -> None:
    exp = image_experiment(method)
    setup = set_up(replace(exp, meta=replace(exp.meta, batch=2)), no_progress, "cpu")
    theta = initial_theta(method, setup.network, 0, setup.spec)
    extra = method.requirements.extra_parameters(setup.network, 0, setup.spec)
    assert torch.equal(theta[: setup.network.d], setup.network.module.init(0))
    assert torch.equal(theta[setup.network.d :], extra.to(theta))


@pytest.mark.parametrize("selector", [Ispl(), Ispl.paper(), SelfPaced()], ids=["ispl", "ispl, paper", "self-paced"])
@pytest.mark.parametrize("method", WITH_INNER_LOOP.values(), ids=WITH_INNER_LOOP.keys())
def test_selection_changes_only_what_is_drawn(method: Method, selector: SampleSelector) -> None:
    needs = WithSampleSelection(method, selector).requirements
    drawn = {"batches_to_draw": needs.batches_to_draw, "selection_samples": needs.selection_samples}
    assert needs == replace(method.requirements, distinct_samples=True, **drawn)  # type: ignore[arg-type]
    assert needs.batches_to_draw(INNER) == selector.batches_to_draw(INNER)
    assert needs.selection_samples(INNER) == selector.selection_samples(INNER)
    with pytest.raises(ValueError, match=r"`inner\.batch` must be a number of samples"):
        needs.batches_to_draw(replace(INNER, batch=None))


@pytest.mark.parametrize("method", PLAIN.values(), ids=PLAIN.keys())
def test_a_robust_loss_needs_classes_and_changes_nothing_else(method: Method) -> None:
    assert RobustLoss(method).requirements == replace(method.requirements, classification_only=True)


@pytest.mark.parametrize(
    ("name", "inner", "task", "expected"),
    [
        ("reptile", INNER, TaskConfig(5, shots=15), 7 * 10),
        ("reptile", replace(INNER, batch=None), TaskConfig(5, shots=15), 7 * 75),
        # Five steps on one sample of each class, then 15 queries of each class.
        ("maml", InnerConfig(steps=5, batch=None), TaskConfig(5, shots=1, queries=15), 5 * 5 + 75),
        # No inner loop: support and queries once, in whatever mini-batches.
        ("prototypical", INNER, TaskConfig(5, shots=1, queries=15), 5 + 75),
        # Two priors, fitted in 12 steps each; each of 120 candidates is judged by one, before and after the fit.
        ("eigen-reptile-ispl", INNER, TaskConfig(5, shots=24), 70 + 2 * 12 * 10 + 2 * 120),
    ],
)
def test_samples_of_a_task_that_pass_through_the_network(
    name: str, inner: InnerConfig, task: TaskConfig, expected: int
) -> None:
    exp = Experiment(METHODS[name], Patterns(), Conv4(4), task, inner=inner)
    assert samples_per_task(exp) == expected
