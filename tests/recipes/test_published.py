"""The published accuracies against the TeX source of the paper."""

import os
import re
from pathlib import Path

import pytest

from eigen_reptile.methods import METHODS, Reptile
from eigen_reptile.nn import Conv4
from eigen_reptile.recipes import RECIPES, PublishedAccuracy, published

PAPER = Path(__file__).parents[3] / "shared" / "paper.tex"
ROWS_OF_TABLE_1 = {
    "MAML": "maml",
    "FOML": "fomaml",  # the first-order method of Finn et al.
    "GNN": "gnn",
    "TAML": "taml",
    "Meta-dropout": "meta-dropout",
    "Warp-MAML": "warp-maml",
    "MC (128)": "meta-curvature",
    "sparse-MAML": "sparse-maml",
    "MeTAL": "metal",
    "MixtFSL": "mixtfsl",
    "Reptile (32)": "reptile",
    "Eigen-Reptile (32)": "eigen-reptile",
    "Eigen-Reptile (64)": "eigen-reptile-64",
}
ROWS_OF_TABLE_2 = {
    "MAML": "maml",
    "PROTO NET": "prototypical",
    "GNN": "gnn",
    "ECM": "ecm",
    "Reptile": "reptile",
    "Eigen-Reptile": "eigen-reptile",
}
TABLES = {"mini-imagenet": "table1", "cifar-fs": "Cifar-FS"}
"""Recipes that reproduce a table of the paper, and the labels of those tables in its source."""


def table_source(label: str) -> str:
    """The TeX source of one table of the paper."""
    if not PAPER.exists():
        reason = f"there is no {PAPER} to compare with"
        pytest.fail(reason) if os.environ.get("CI") == "true" else pytest.skip(reason)
    tables: list[str] = re.findall(r"\\begin\{table.*?\\end\{table", PAPER.read_text(), re.DOTALL)
    (source,) = (table for table in tables if rf"\label{{{label}}}" in table)
    return source


def paper_rows(label: str, columns: int) -> dict[str, list[tuple[float, ...]]]:
    """The rows of a table of the paper: the numbers in each column, by the name of the row."""
    rows = {}
    for line in table_source(label).split(r"\\"):
        name, *cells = line.split("&")
        numbers = [tuple(map(float, re.findall(r"\d+\.\d+", cell))) for cell in cells]
        if len(numbers) == columns and all(numbers):
            rows[re.sub(r"\\[a-z]+(\{.*?\})?", "", name).strip()] = numbers
    return rows


def one_and_five_shot(label: str) -> dict[str, tuple[PublishedAccuracy, PublishedAccuracy]]:
    """1-shot and 5-shot accuracy by row, with the interval where the paper gives one."""
    return {row: (_accuracy(one), _accuracy(five)) for row, (one, five) in paper_rows(label, 2).items()}


def _accuracy(numbers: tuple[float, ...]) -> PublishedAccuracy:
    mean, *interval = numbers
    return PublishedAccuracy(mean, interval[0] if interval else None)


@pytest.mark.parametrize(
    ("label", "names", "table"),
    [("table1", ROWS_OF_TABLE_1, published.MINI_IMAGENET), ("Cifar-FS", ROWS_OF_TABLE_2, published.CIFAR_FS)],
)
def test_published_accuracies_equal_those_in_the_paper(
    label: str, names: dict[str, str], table: published.PublishedTable
) -> None:
    rows = one_and_five_shot(label)
    assert set(rows) == set(names)
    expected = {(names[row], shots): pair[place] for row, pair in rows.items() for place, shots in enumerate((1, 5))}
    assert table == expected
    assert {name for name, _ in table} <= {*METHODS, "eigen-reptile-64"}


def test_published_accuracies_with_noise_equal_table_3() -> None:
    rows = paper_rows("table2", 7)
    assert len(rows) == 5
    expected = {
        (f"{row.lower().replace('+', '-')}-{noise}", 1): PublishedAccuracy(accuracy, None)
        for row, cells in rows.items()
        for noise, (accuracy,) in zip(("p0", "s10", "as10", "s20", "as20", "s50", "as50"), cells, strict=True)
    }
    assert expected == published.NOISY_MINI_IMAGENET


def test_the_comparison_of_all_methods_has_the_numbers_of_table_2() -> None:
    assert RECIPES["all-methods"].published == published.CIFAR_FS
    assert {name for name, _ in published.CIFAR_FS} <= set(RECIPES["all-methods"].cells("small"))


@pytest.mark.parametrize("recipe", TABLES)
def test_the_cells_of_a_recipe_have_the_numbers_of_their_row(recipe: str) -> None:
    rows = one_and_five_shot(TABLES[recipe])
    expected: dict[tuple[str, int], PublishedAccuracy] = {}
    used = set()
    for name, cell in RECIPES[recipe].cells("full").items():
        assert isinstance(cell.model, Conv4)
        row = "Reptile" if isinstance(cell.method, Reptile) else "Eigen-Reptile"
        row = row if row in rows else f"{row} ({cell.model.filters})"
        used.add(row)
        expected |= {(name, shots): rows[row][place] for place, shots in enumerate((1, 5))}
    assert RECIPES[recipe].published == expected
    assert used == {row for row in rows if re.match("(Eigen-)?Reptile", row)}


def test_the_cells_with_noise_have_the_numbers_of_table_3() -> None:
    rows = {row.lower().replace("+", "-"): cells for row, cells in paper_rows("table2", 7).items()}
    noises = ("p0", "s10", "as10", "s20", "as20", "s50", "as50")
    cells = RECIPES["noisy"].cells("full")
    assert RECIPES["noisy"].published
    for (cell, shots), accuracy in RECIPES["noisy"].published.items():
        name, _, noise = cell.rpartition("-")
        (expected,) = rows[name.removesuffix("-paper")][noises.index(noise)]
        assert accuracy == (expected, None)
        assert shots == 1
        assert cell in cells


def test_nothing_is_published_where_the_paper_has_no_table() -> None:
    assert [name for name, recipe in RECIPES.items() if recipe.published] == [
        name for name in RECIPES if name in TABLES or name in ("noisy", "all-methods")
    ]
