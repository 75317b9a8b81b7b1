"""The table of all methods: idea, cost, published accuracy and accuracy measured here."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from eigen_reptile.methods import METHODS
from eigen_reptile.recipes import published
from eigen_reptile.report.benchmark import read_benchmark
from eigen_reptile.report.collect import Cell, Group
from eigen_reptile.report.describe import describe_method
from eigen_reptile.report.table import Table

PUBLISHED = {"mini-ImageNet, paper": published.MINI_IMAGENET, "CIFAR-FS, paper": published.CIFAR_FS}
MEASURED = {"CIFAR-FS, here": "all-methods", "Omniglot, here": "all-methods-omniglot"}
"""Headings, and the recipes that compare all methods."""


def read_costs(benchmarks: Path) -> dict[str, float]:
    """The cost of an outer iteration by method, relative to Reptile; empty if it was not measured."""
    file = benchmarks / "methods.json"
    if not file.exists():
        return {}
    measured = read_benchmark(file)
    name, ratio = (measured.columns.index(column) for column in ("contender", "times reptile"))
    return {str(row[name]): 1 / float(row[ratio]) for row in measured.rows}


def methods_table(groups: Sequence[Group], costs: Mapping[str, float]) -> Table:
    """A row for each method in METHODS."""
    by_name = {group.name: group for group in groups}
    rows = []
    for name, method in METHODS.items():
        idea, file, meta_learnt, gradients = describe_method(name, method)
        row = [f"`{name}`", idea, f"`{file}`", meta_learnt, gradients]
        row.append(f"{costs[name]:.2f}" if name in costs else "")
        row += [_published_accuracies(table, name) for table in PUBLISHED.values()]
        for recipe in MEASURED.values():
            row.append(_measured_accuracies(by_name[recipe].find(method)) if recipe in by_name else "")
        rows.append(row)
    headings = ["name", "idea", "file", "meta-learnt", "gradients", "cost", *PUBLISHED, *MEASURED]
    return Table.of(headings, rows)


def _published_accuracies(table: published.PublishedTable, name: str) -> str:
    """1-shot / 5-shot; nothing if the paper does not have the method."""
    return " / ".join(f"{table[name, shots].mean:.2f}" for shots in (1, 5) if (name, shots) in table)


def _measured_accuracies(cell: Cell | None) -> str:
    """1-shot / 5-shot, transductive; nothing if the method was not evaluated."""
    if cell is None:
        return ""
    scores = [test.column("transductive") for test in cell.tests]
    return " / ".join(f"{100 * column.mean:.2f}" for column in scores if column is not None)
