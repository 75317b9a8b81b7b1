"""Recipes have the paper's protocol and numbers, and give every method the same budget."""

import json
import math
import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest

from eigen_reptile.inner import InnerConfig
from eigen_reptile.methods import METHODS, EigenReptile, Ispl, Method, Reptile, RobustLoss, WithSampleSelection
from eigen_reptile.nn import Conv4
from eigen_reptile.noise import NoiseConfig
from eigen_reptile.recipes import RECIPES, Scale
from eigen_reptile.tasks import TaskConfig
from eigen_reptile.training.config import Experiment
from eigen_reptile.training.presets import image_preset, preset
from eigen_reptile.training.serialise import from_json, to_json

SCALES: tuple[Scale, ...] = get_args(Scale)
COMPARISONS = ("all-methods", "all-methods-omniglot")
UNTUNED = (*COMPARISONS, "support-noise", "support-noise-omniglot")
IMAGES = tuple(name for name in RECIPES if name != "sine" and name not in UNTUNED)
TABLES = {"mini-imagenet": "table1", "cifar-fs": "Cifar-FS"}
"""The recipes that are tables of the paper, and the labels of these tables there."""


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("recipe", RECIPES)
def test_cell_names_can_be_folders_and_cells_survive_json(recipe: str, scale: Scale) -> None:
    cells = RECIPES[recipe].cells(scale)
    assert cells
    for name, cell in cells.items():
        assert re.fullmatch(r"[a-z0-9.-]+", name)
        assert from_json(json.loads(json.dumps(to_json(cell)))) == cell
        if scale == "small" and "root" in vars(cell.data):
            moved = replace(cell, data=replace(cell.data, root=Path("some/where")))  # type: ignore[call-arg]
            assert from_json(json.loads(json.dumps(to_json(moved)))) == moved
    assert len({json.dumps(to_json(cell)) for cell in cells.values()}) == len(cells)


@pytest.mark.parametrize("recipe", TABLES)
def test_tables_at_full_scale_have_the_papers_protocol(recipe: str) -> None:
    cells = RECIPES[recipe].cells("full")
    assert {type(cell.method) for cell in cells.values()} == {Reptile, EigenReptile}
    for cell in cells.values():
        reptile = isinstance(cell.method, Reptile)
        assert cell.inner == InnerConfig(
            steps=8 if reptile else 7, batch=10, lr=0.001 if reptile else 0.0005, optimizer="adam"
        )
        check_shared_protocol(cell)
        assert cell.task == TaskConfig(way=5, shots=15)
        assert cell.evaluation.shots == (1, 5)


def check_shared_protocol(cell: Experiment) -> None:
    """The settings of section 5.2 and the original code for all image tasks."""
    assert (cell.meta.steps, cell.meta.batch, cell.meta.lr, cell.meta.final_lr) == (100_000, 5, (1.0,), 0.0)
    assert isinstance(cell.model, Conv4)
    evaluation = cell.evaluation
    assert (evaluation.tasks, evaluation.queries, evaluation.inner_steps, evaluation.test) == (10_000, 1, (50,), True)
    # All five images at once for 1-shot, 15 of the 25 for 5-shot: a smaller support is used whole.
    assert evaluation.batch == 15


def test_omniglot_at_full_scale_has_the_protocol_of_reptiles_authors() -> None:
    for cell in RECIPES["omniglot"].cells("full").values():
        assert (cell.inner.steps, cell.inner.batch, cell.inner.lr) == (5, 10, 0.001)
        assert cell.task == TaskConfig(way=5, shots=10)
        assert cell.evaluation.shots == (1, 5)
        check_shared_protocol(cell)


@pytest.mark.parametrize("scale", ["full", "small"])
def test_inner_steps_varies_the_steps_and_by_the_papers_rule_the_shots(scale: Scale) -> None:
    cells = RECIPES["inner-steps"].cells(scale)
    steps = [cell.inner.steps for cell in cells.values()]
    assert {7} < set(steps)
    assert min(steps) < 7 < sorted(steps)[-2]  # two above 7, to distinguish a plateau from a single lucky point
    for cell in cells.values():
        assert cell.task.shots == math.ceil(cell.inner.steps * 10 / 5) + 1
        assert cell.evaluation.shots == (5,)
        assert isinstance(cell.method, EigenReptile)
        if scale == "full":
            assert (cell.inner.batch, cell.inner.lr) == (10, 0.0005)
            check_shared_protocol(cell)
    nothing_else = {
        replace(cell, task=TaskConfig(way=5, shots=15), inner=replace(cell.inner, steps=7)) for cell in cells.values()
    }
    assert len(nothing_else) == 1


def without_own_preset(cells: Iterable[Experiment]) -> list[Experiment]:
    """Cells of Reptile, Eigen-Reptile and their variants, which begin with the same settings."""
    return [cell for cell in cells if image_preset(cell.method) is None]


def unwrapped(method: Method) -> Method:
    """The method inside a wrapper."""
    return method.method if isinstance(method, WithSampleSelection | RobustLoss) else method


@pytest.mark.parametrize("recipe", RECIPES)
def test_every_cell_at_small_scale_has_the_same_budget(recipe: str) -> None:
    cells = without_own_preset(RECIPES[recipe].cells("small").values())
    assert len({(cell.seeds, len(cell.meta.lr), cell.meta.steps, cell.meta.batch) for cell in cells}) == 1
    assert len({(cell.data, cell.model, cell.evaluation, cell.meta.keep, cell.meta.patience) for cell in cells}) == 1
    assert len({(cell.inner.batch, cell.inner.optimizer, cell.inner.carry) for cell in cells}) == 1
    if recipe != "inner-steps":
        assert len({(cell.inner.steps, cell.task) for cell in cells}) == 1


def test_the_small_scale_has_several_seeds_and_numbers_of_shots() -> None:
    for cells in (RECIPES["cifar-fs"].cells("small"), RECIPES["omniglot"].cells("small")):
        assert {METHODS["reptile"], EigenReptile.paper(), EigenReptile.authors()} <= {
            cell.method for cell in cells.values()
        }
        for cell in cells.values():
            assert {1, 5} <= set(cell.evaluation.shots)
            assert len(cell.seeds) >= 2


@pytest.mark.parametrize("recipe", IMAGES)
def test_the_search_for_rates_is_the_same_for_every_method_and_uses_no_test_tasks(recipe: str) -> None:
    small = without_own_preset(RECIPES[recipe].cells("small").values())
    noisy = any(cell.noise != NoiseConfig() for cell in small)
    # Under noise, a method has its own rates without noise, or those of the method that it wraps.
    cells = RECIPES["cifar-fs" if noisy else recipe].cells("tune").values()
    assert not any(cell.evaluation.test for cell in cells)
    tries: dict[Method, set[tuple[float, float]]] = defaultdict(set)
    for cell in cells:
        tries[cell.method] |= {(cell.inner.lr, lr) for lr in cell.meta.lr}
    used = {unwrapped(cell.method) for cell in small}
    assert used <= set(tries) if noisy else used == set(tries)
    assert len({frozenset(tried) for tried in tries.values()}) == 1
    budgets: dict[Method, set[object]] = defaultdict(set)
    for cell in cells:
        budgets[cell.method].add((cell.meta.steps, cell.seeds, cell.evaluation, cell.task, cell.inner.steps))
    assert len({frozenset(budget) for budget in budgets.values()}) == 1
    # The rates that are used afterwards were among those tried.
    for cell in small:
        assert {(cell.inner.lr, lr) for lr in cell.meta.lr} <= tries[unwrapped(cell.method)]


@pytest.mark.parametrize("recipe", COMPARISONS)
def test_all_methods_are_compared_on_one_network_and_the_same_tasks(recipe: str) -> None:
    cells = RECIPES[recipe].cells("small")
    tables = {"maml", "fomaml", "taml", "meta-dropout", "warp-maml", "meta-curvature", "sparse-maml", "metal"}
    tables |= {"mixtfsl", "gnn", "prototypical", "ecm", "reptile", "eigen-reptile"}
    assert tables | {"anil", "boil"} == set(cells)
    for name, cell in cells.items():
        assert cell.method == METHODS[name]
        assert isinstance(cell.model, Conv4)
        assert {1, 5} <= set(cell.evaluation.shots)
        # No method has tuned rates, because not all of them were tuned.
        start = preset(cell.data, cell.method)
        assert isinstance(start.model, Conv4)
        pooling = start.model.pooling if recipe == "all-methods-omniglot" else "same"
        assert (cell.model.filters, cell.model.pooling) == (32, pooling)
        assert (cell.inner, cell.meta.lr, cell.task) == (start.inner, start.meta.lr, start.task)
    shared = {
        (cell.data, cell.seeds, replace(cell.evaluation, every=1, inner_steps=(1,), batch=1)) for cell in cells.values()
    }
    assert len(shared) == 1


@pytest.mark.parametrize("recipe", COMPARISONS)
def test_other_methods_at_full_scale_have_a_constant_outer_rate_and_their_authors_iterations(recipe: str) -> None:
    cells = RECIPES[recipe].cells("full")
    published = {"maml": 60_000, "meta-dropout": 60_000, "sparse-maml": 40_000, "metal": 50_000, "gnn": 80_000}
    assert {name: cells[name].meta.steps for name in published} == published
    running = {name for name, cell in cells.items() if vars(cell.model)["statistics"] == "running"}
    assert running == {"prototypical", "gnn", "ecm", "mixtfsl"}
    for cell in cells.values():
        if image_preset(cell.method) is None:
            check_shared_protocol(cell)
        else:
            assert cell.meta.final_lr == cell.meta.lr[0]
            assert (cell.evaluation.tasks, cell.evaluation.queries) == (600, 15)


@pytest.mark.parametrize("recipe", COMPARISONS)
def test_every_method_tries_the_same_multiples_of_its_rate(recipe: str) -> None:
    small, tune = (RECIPES[recipe].cells(scale) for scale in ("small", "tune"))
    assert set(small) == set(tune)
    for name, cell in small.items():
        assert not tune[name].evaluation.test
        assert [lr / cell.meta.lr[0] for lr in tune[name].meta.lr] == pytest.approx([0.3, 1.0, 3.0])
        assert replace(tune[name].meta, lr=(1.0,), steps=1, keep="best") == replace(cell.meta, lr=(1.0,), steps=1)


@pytest.mark.parametrize("scale", ["small", "full"])
def test_other_methods_under_noise_have_their_presets_with_more_shots(scale: Scale) -> None:
    cells = RECIPES["noisy"].cells(scale)
    for name in ("maml", "prototypical", "metal"):
        cell = cells[f"{name}-s50"]
        start = preset(cell.data, METHODS[name])
        assert (cell.inner, cell.meta.lr) == (start.inner, start.meta.lr)
        assert cell.inner.batch is None  # the whole support, which is 25 with 5 shots
        assert cell.task == replace(start.task, shots=5)
        assert cell.noise == cells["reptile-s50"].noise
        assert cell.evaluation.seed == cells["reptile-s50"].evaluation.seed
    assert replace(cells["reptile-gce-s50"], method=METHODS["reptile"]) == cells["reptile-s50"]


def test_the_search_for_the_threshold_of_ispl_is_under_noise_and_uses_no_test_tasks() -> None:
    cells = list(RECIPES["noisy"].cells("tune").values())
    assert not any(cell.evaluation.test for cell in cells)
    assert all(cell.noise.rate == 0.5 for cell in cells)
    without, *tries = cells
    assert without.method == EigenReptile()
    thresholds = set()
    for cell in tries:
        assert isinstance(cell.method, WithSampleSelection)
        assert isinstance(cell.method.selector, Ispl)
        thresholds.add(cell.method.selector.gamma)
        assert replace(cell.method.selector, gamma=Ispl().gamma) == Ispl()
        assert replace(cell, method=without.method) == without
    assert Ispl().gamma in thresholds
