"""Recipes: the paper's protocol and numbers, and the same budget for every method."""

import json
import math
import os
import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest

from eigen_reptile.config import Experiment, from_json, standard, to_json
from eigen_reptile.inner import InnerConfig
from eigen_reptile.methods import METHODS, EigenReptile, Ispl, Method, Reptile, Selected
from eigen_reptile.methods.wrapped import Wrapped
from eigen_reptile.models import Conv4
from eigen_reptile.noise import NoiseConfig
from eigen_reptile.recipes import RECIPES, Published, Scale
from eigen_reptile.report.methods import ABOUT
from eigen_reptile.tasks import TaskConfig

PAPER = Path(__file__).parent.parent.parent / "shared" / "paper.tex"
SCALES: tuple[Scale, ...] = get_args(Scale)
COMPARISONS = ("all-methods", "all-methods-omniglot")
PICTURES = tuple(name for name in RECIPES if name != "sine" and name not in COMPARISONS)
TABLES = {"mini-imagenet": "table1", "cifar-fs": "Cifar-FS"}
"""The recipes that are tables of the paper, and the labels of those there."""


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("recipe", RECIPES)
def test_cells_are_folders_of_their_own_and_survive_json(recipe: str, scale: Scale) -> None:
    cells = RECIPES[recipe].cells(scale)
    assert cells
    for name, cell in cells.items():
        assert re.fullmatch(r"[a-z0-9.-]+", name)
        assert from_json(json.loads(json.dumps(to_json(cell)))) == cell
        if "root" in vars(cell.data):
            moved = replace(cell, data=replace(cell.data, root=Path("some/where")))  # type: ignore[call-arg]
            assert from_json(json.loads(json.dumps(to_json(moved)))) == moved
    assert len({json.dumps(to_json(cell)) for cell in cells.values()}) == len(cells)


@pytest.mark.parametrize("recipe", TABLES)
def test_at_full_scale_the_tables_have_the_papers_protocol(recipe: str) -> None:
    cells = RECIPES[recipe].cells("full")
    assert {type(cell.method) for cell in cells.values()} == {Reptile, EigenReptile}
    for cell in cells.values():
        reptile = isinstance(cell.method, Reptile)
        assert cell.inner == InnerConfig(
            steps=8 if reptile else 7, batch=10, lr=0.001 if reptile else 0.0005, optimizer="adam"
        )
        check_the_rest(cell)
        assert cell.task == TaskConfig(way=5, shots=15)
        assert cell.evaluation.shots == (1, 5)


def check_the_rest(cell: Experiment) -> None:
    """What section 5.2 and the original code have in common for all picture tasks."""
    assert (cell.meta.steps, cell.meta.batch, cell.meta.lr, cell.meta.final_lr) == (100_000, 5, (1.0,), 0.0)
    assert isinstance(cell.model, Conv4)
    evaluation = cell.evaluation
    assert (evaluation.tasks, evaluation.queries, evaluation.after, evaluation.test) == (10_000, 1, (50,), True)
    # All five pictures at once for 1-shot, 15 of the 25 for 5-shot: a smaller support is taken whole.
    assert evaluation.batch == 15


def test_at_full_scale_omniglot_has_the_protocol_of_reptiles_authors() -> None:
    for cell in RECIPES["omniglot"].cells("full").values():
        assert (cell.inner.steps, cell.inner.batch, cell.inner.lr) == (5, 10, 0.001)
        assert cell.task == TaskConfig(way=5, shots=10)
        assert cell.evaluation.shots == (1, 5)
        check_the_rest(cell)


@pytest.mark.parametrize("scale", ["full", "small"])
def test_inner_steps_changes_them_and_the_shots_by_the_papers_rule(scale: Scale) -> None:
    cells = RECIPES["inner-steps"].cells(scale)
    steps = [cell.inner.steps for cell in cells.values()]
    assert {7} < set(steps)
    assert min(steps) < 7 < sorted(steps)[-2]  # two beyond, to tell a plateau from a single lucky point
    for cell in cells.values():
        assert cell.task.shots == math.ceil(cell.inner.steps * 10 / 5) + 1
        assert cell.evaluation.shots == (5,)
        assert isinstance(cell.method, EigenReptile)
        if scale == "full":
            assert (cell.inner.batch, cell.inner.lr) == (10, 0.0005)
            check_the_rest(cell)
    nothing_else = {
        replace(cell, task=TaskConfig(way=5, shots=15), inner=replace(cell.inner, steps=7)) for cell in cells.values()
    }
    assert len(nothing_else) == 1


def of_one_family(cells: Iterable[Experiment]) -> list[Experiment]:
    """Those whose methods have the same settings to begin with."""
    return [cell for cell in cells if cell.method.suggests is None]


@pytest.mark.parametrize("recipe", RECIPES)
def test_at_small_scale_every_cell_has_the_same_budget(recipe: str) -> None:
    cells = of_one_family(RECIPES[recipe].cells("small").values())
    assert len({(cell.seeds, len(cell.meta.lr), cell.meta.steps, cell.meta.batch) for cell in cells}) == 1
    assert len({(cell.data, cell.model, cell.evaluation, cell.meta.keep, cell.meta.patience) for cell in cells}) == 1
    assert len({(cell.inner.batch, cell.inner.optimizer, cell.inner.carry) for cell in cells}) == 1
    if recipe != "inner-steps":
        assert len({(cell.inner.steps, cell.task) for cell in cells}) == 1


def test_the_small_scale_tells_seeds_and_numbers_of_shots_apart() -> None:
    for cells in (RECIPES["cifar-fs"].cells("small"), RECIPES["omniglot"].cells("small")):
        assert {METHODS["reptile"], EigenReptile.paper(), EigenReptile.authors()} <= {
            cell.method for cell in cells.values()
        }
        for cell in cells.values():
            assert {1, 5} <= set(cell.evaluation.shots)
            assert len(cell.seeds) >= 2


@pytest.mark.parametrize("recipe", PICTURES)
def test_rates_are_sought_with_the_same_tries_for_each_method_and_never_on_the_test(recipe: str) -> None:
    small = of_one_family(RECIPES[recipe].cells("small").values())
    noisy = any(cell.noise != NoiseConfig() for cell in small)
    # Under noise, a method has the rates of itself, or of the method that it wraps, without noise.
    cells = RECIPES["cifar-fs" if noisy else recipe].cells("tune").values()
    assert not any(cell.evaluation.test for cell in cells)
    tries: dict[Method, set[tuple[float, float]]] = defaultdict(set)
    for cell in cells:
        tries[cell.method] |= {(cell.inner.lr, lr) for lr in cell.meta.lr}
    used = {cell.method.method if isinstance(cell.method, Wrapped) else cell.method for cell in small}
    assert used <= set(tries) if noisy else used == set(tries)
    assert len({frozenset(tried) for tried in tries.values()}) == 1
    budgets: dict[Method, set[object]] = defaultdict(set)
    for cell in cells:
        budgets[cell.method].add((cell.meta.steps, cell.seeds, cell.evaluation, cell.task, cell.inner.steps))
    assert len({frozenset(budget) for budget in budgets.values()}) == 1
    # And what is used afterwards was one of the tries.
    for cell in small:
        method = cell.method.method if isinstance(cell.method, Wrapped) else cell.method
        assert {(cell.inner.lr, lr) for lr in cell.meta.lr} <= tries[method]


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
        # None has rates that others did not get the chance to look for.
        begun = standard(cell.data, cell.method)
        assert isinstance(begun.model, Conv4)
        pooling = begun.model.pooling if recipe == "all-methods-omniglot" else "same"
        assert (cell.model.filters, cell.model.pooling) == (32, pooling)
        assert (cell.inner, cell.meta.lr, cell.task) == (begun.inner, begun.meta.lr, begun.task)
    shared = {
        (cell.data, cell.seeds, replace(cell.evaluation, every=1, after=(1,), batch=1)) for cell in cells.values()
    }
    assert len(shared) == 1


@pytest.mark.parametrize("recipe", COMPARISONS)
def test_in_full_the_others_keep_the_outer_rate_for_the_iterations_of_their_authors(recipe: str) -> None:
    cells = RECIPES[recipe].cells("full")
    published = {"maml": 60_000, "meta-dropout": 60_000, "sparse-maml": 40_000, "metal": 50_000, "gnn": 80_000}
    assert {name: cells[name].meta.steps for name in published} == published
    running = {name for name, cell in cells.items() if vars(cell.model)["statistics"] == "running"}
    assert running == {"prototypical", "gnn", "ecm", "mixtfsl"}
    for cell in cells.values():
        if cell.method.suggests is None:
            check_the_rest(cell)
        else:
            assert cell.meta.final_lr == cell.meta.lr[0]
            assert (cell.evaluation.tasks, cell.evaluation.queries) == (600, 15)


@pytest.mark.parametrize("recipe", COMPARISONS)
def test_every_method_gets_the_same_tries(recipe: str) -> None:
    small, tune = (RECIPES[recipe].cells(scale) for scale in ("small", "tune"))
    assert set(small) == set(tune)
    for name, cell in small.items():
        assert not tune[name].evaluation.test
        assert [lr / cell.meta.lr[0] for lr in tune[name].meta.lr] == pytest.approx([0.3, 1.0, 3.0])
        assert replace(tune[name].meta, lr=(1.0,), steps=1, keep="best") == replace(cell.meta, lr=(1.0,), steps=1)


@pytest.mark.parametrize("scale", ["small", "full"])
def test_under_noise_other_methods_keep_their_own_settings_with_more_shots(scale: Scale) -> None:
    cells = RECIPES["noisy"].cells(scale)
    for name in ("maml", "prototypical", "metal"):
        cell = cells[f"{name}-s50"]
        begun = standard(cell.data, METHODS[name])
        assert (cell.inner, cell.meta.lr) == (replace(begun.inner, batch=25), begun.meta.lr)
        assert cell.task == replace(begun.task, shots=5)
        assert cell.noise == cells["reptile-s50"].noise
        assert cell.evaluation.seed == cells["reptile-s50"].evaluation.seed
    assert replace(cells["reptile-gce-s50"], method=METHODS["reptile"]) == cells["reptile-s50"]


def test_the_threshold_of_ispl_is_sought_under_noise_and_never_on_the_test() -> None:
    cells = list(RECIPES["noisy"].cells("tune").values())
    assert not any(cell.evaluation.test for cell in cells)
    assert all(cell.noise.rate == 0.5 for cell in cells)
    without, *tries = cells
    assert without.method == EigenReptile()
    thresholds = set()
    for cell in tries:
        assert isinstance(cell.method, Selected)
        assert isinstance(cell.method.selector, Ispl)
        thresholds.add(cell.method.selector.gamma)
        assert replace(cell.method.selector, gamma=Ispl().gamma) == Ispl()
        assert replace(cell, method=without.method) == without
    assert Ispl().gamma in thresholds


def papers_tables() -> list[str]:
    if not PAPER.exists():
        if os.environ.get("CI") == "true":
            pytest.fail(f"there is no {PAPER} to compare with")
        pytest.skip(f"there is no {PAPER} to compare with")
    return re.findall(r"\\begin\{table.*?\\end\{table", PAPER.read_text(), re.DOTALL)


def papers_table(label: str) -> dict[str, tuple[Published, Published]]:
    """A table of the paper: from the name of a row to its 1-shot and 5-shot accuracy, where both have intervals."""
    (table,) = (table for table in papers_tables() if rf"\label{{{label}}}" in table)
    rows = {}
    for line in table.split(r"\\"):
        name, *columns = line.split("&")
        numbers = [tuple(map(float, re.findall(r"\d+\.\d+", column))) for column in columns]
        if [len(found) for found in numbers] == [2, 2]:
            rows[re.sub(r"\\[a-z]+(\{.*?\})?", "", name).strip()] = (Published(*numbers[0]), Published(*numbers[1]))
    return rows


def test_published_numbers_of_the_methods_are_those_of_table_1() -> None:
    table = {row.split(" ")[0].lower(): numbers for row, numbers in papers_table("table1").items() if "(64)" not in row}
    names = {"foml": "fomaml", "mc": "meta-curvature"}  # FOML there is Finn's
    expected = {names.get(row, row): f"{one.mean:.2f} / {five.mean:.2f}" for row, (one, five) in table.items()}
    expected["gnn"] = "50.30 / 66.40"  # which has no intervals
    assert {name: about.mini_imagenet for name, about in ABOUT.items() if about.mini_imagenet} == expected


def test_published_numbers_of_all_methods_are_those_of_table_2() -> None:
    table = papers_table("Cifar-FS")
    rows = {"reptile": "Reptile", "eigen-reptile": "Eigen-Reptile", "maml": "MAML", "ecm": "ECM"}
    rows |= {"prototypical": "PROTO NET"}
    without_intervals = {("gnn", 1): Published(61.90, None), ("gnn", 5): Published(75.30, None)}
    with_intervals = {(name, shots): table[row][shots == 5] for name, row in rows.items() for shots in (1, 5)}
    assert RECIPES["all-methods"].published == with_intervals | without_intervals
    assert set(rows.values()) == set(table)


@pytest.mark.parametrize("recipe", TABLES)
def test_published_numbers_are_the_papers(recipe: str) -> None:
    table = papers_table(TABLES[recipe])
    cells = RECIPES[recipe].cells("full")
    expected: dict[tuple[str, int], Published] = {}
    used = set()
    for name, cell in cells.items():
        assert isinstance(cell.model, Conv4)
        row = "Reptile" if isinstance(cell.method, Reptile) else "Eigen-Reptile"
        row = row if row in table else f"{row} ({cell.model.filters})"
        used.add(row)
        expected |= {(name, shots): table[row][place] for place, shots in enumerate((1, 5))}
    assert RECIPES[recipe].published == expected
    assert used == {row for row in table if re.match("(Eigen-)?Reptile", row)}


def test_published_numbers_under_noise_are_those_of_table_3() -> None:
    (table,) = (table for table in papers_tables() if r"\label{table2}" in table)
    found = {}
    for line in table.split(r"\\"):
        name, *columns = line.split("&")
        numbers = [float(number) for column in columns for number in re.findall(r"\d+\.\d+", column)]
        if len(numbers) == 7:
            found[name.split(r"\cite")[0].strip().lower().replace("+", "-")] = numbers
    assert len(found) == 5
    ends = ("p0", "s10", "as10", "s20", "as20", "s50", "as50")
    for (cell, shots), published in RECIPES["noisy"].published.items():
        name, _, end = cell.removesuffix("-paper").rpartition("-")
        assert published == (found[name.removesuffix("-paper")][ends.index(end)], None)
        assert shots == 1
        assert cell in RECIPES["noisy"].cells("full")


def test_nothing_is_published_where_the_paper_has_no_table() -> None:
    assert [name for name, recipe in RECIPES.items() if recipe.published] == [
        name for name in RECIPES if name in TABLES or name in ("noisy", "all-methods")
    ]
