"""One row for every method: what it is, what it costs, what was published and what it does here."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from eigen_reptile.methods import METHODS, Method
from eigen_reptile.recipes import RECIPES
from eigen_reptile.report.collect import Cell, Group
from eigen_reptile.report.performance import read_benchmark
from eigen_reptile.report.tables import markdown

GROUPS = {"CIFAR-FS here": "all-methods", "Omniglot here": "all-methods-omniglot"}
"""The recipes in which all methods are compared."""


class About(NamedTuple):
    """What is known of a method without measuring."""

    idea: str
    file: str
    learnt: str = "network"
    order: str = "first"
    mini_imagenet: str = ""
    """As the paper's table 1 has it, 5-way 1-shot / 5-shot."""


ABOUT = {
    "reptile": About(
        "towards the last point of the inner loop",
        "reptile.py",
        mini_imagenet="49.97 / 65.99",
    ),
    "eigen-reptile": About(
        "along the main direction of the inner loop's points",
        "eigen_reptile.py",
        mini_imagenet="51.80 / 68.10",
    ),
    "eigen-reptile-paper": About("the same in the paper's form", "eigen_reptile.py"),
    "eigen-reptile-authors": About("the same in the form of the authors' program", "eigen_reptile.py"),
    "eigen-reptile-no-sign-fix": About("the same with the sign left as it comes", "eigen_reptile.py"),
    "reptile-ispl": About("without the samples that prior models find surprising", "ispl.py"),
    "eigen-reptile-ispl": About("without the samples that prior models find surprising", "ispl.py"),
    "eigen-reptile-ispl-paper": About("the same with the paper's threshold", "ispl.py"),
    "eigen-reptile-ispl-authors": About("the same as in the authors' program", "ispl.py"),
    "eigen-reptile-spl": About("easy samples first", "self_paced.py"),
    "reptile-gce": About("a loss that wrong labels pull at less", "robust.py"),
    "eigen-reptile-gce": About("a loss that wrong labels pull at less", "robust.py"),
    "foml": About("along the last inner step", "foml.py"),
    "maml": About(
        "down the queries' loss after adaptation, through it",
        "maml.py",
        order="second",
        mini_imagenet="48.70 / 63.11",
    ),
    "fomaml": About("the same, with inner gradients taken for constants", "maml.py", mini_imagenet="48.07 / 63.15"),
    "maml-ispl": About("MAML without the samples that prior models find surprising", "ispl.py", order="second"),
    "fomaml-ispl": About("FOMAML without the samples that prior models find surprising", "ispl.py"),
    "anil": About("MAML that adapts only the last layer", "maml.py", order="second"),
    "boil": About("MAML that adapts all but the last layer", "maml.py", order="second"),
    "taml": About(
        "MAML that is not to favour some tasks, by entropy", "taml.py", order="second", mini_imagenet="51.77 / 65.60"
    ),
    "taml-theil": About("the same, by the inequality of losses", "taml.py", order="second"),
    "meta-curvature": About(
        "MAML with learnt maps of the inner gradients",
        "meta_curvature.py",
        "network, maps",
        "second",
        mini_imagenet="54.08 / 67.99",
    ),
    "sparse-maml": About(
        "MAML that learns which parameters to adapt",
        "sparse_maml.py",
        "network, mask",
        mini_imagenet="51.04 / 68.05",
    ),
    "warp-maml": About(
        "layers that adaptation goes through but leaves alone",
        "warp_maml.py",
        "network with warp layers",
        "second",
        mini_imagenet="52.30 / 68.40",
    ),
    "metal": About(
        "a learnt inner loss", "metal.py", "network, loss networks", "second", mini_imagenet="52.63 / 70.52"
    ),
    "meta-dropout": About(
        "adaptation under learnt noise",
        "meta_dropout.py",
        "network with noise layers",
        "second",
        mini_imagenet="51.93 / 67.42",
    ),
    "prototypical": About("the nearest mean of a class", "prototypical.py", order="no inner loop"),
    "gnn": About(
        "a graph of support and query",
        "gnn.py",
        "network, graph network",
        "no inner loop",
        "50.30 / 66.40",
    ),
    "ecm": About(
        "a learnt vector for each class, fitted on new tasks",
        "ecm.py",
        "network, vectors",
        "no inner loop",
    ),
    "mixtfsl": About(
        "several components for each class",
        "mixtfsl.py",
        "network, components",
        "no inner loop",
        mini_imagenet="52.82 / 70.67",
    ),
    "average-weights": About("towards the mean of the inner loop's points", "averages.py"),
    "average-gradients": About("along the mean of the inner loop's steps", "averages.py"),
    "average-unit-gradients": About("along the mean of their unit vectors", "averages.py"),
}


def costs(benchmarks: Path) -> dict[str, float]:
    """By method: how many times what an iteration of Reptile costs; none if it has not been measured."""
    file = benchmarks / "methods.json"
    if not file.exists():
        return {}
    measured = read_benchmark(file)
    name, ratio = (measured.columns.index(column) for column in ("contender", "times reptile"))
    return {str(row[name]): 1 / float(row[ratio]) for row in measured.rows}


def methods_table(groups: Sequence[Group], cost: Mapping[str, float]) -> str:
    """A row for each method; of one that somebody has added, what its class says."""
    measured = {
        heading: next((group for group in groups if group.name == name), None) for heading, name in GROUPS.items()
    }
    rows = []
    for name, method in METHODS.items():
        about = ABOUT.get(name) or _described(method)
        own = [f"`{name}`", about.idea, f"`{about.file}`", about.learnt, about.order]
        own.append(f"{cost[name]:.2f}" if name in cost else "")
        here = [_accuracies(group.find(method)) if group else "" for group in measured.values()]
        rows.append([*own, about.mini_imagenet, _published(name), *here])
    headings = ["name", "idea", "file", "meta-learnt", "gradients", "cost", "mini-ImageNet", "CIFAR-FS", *measured]
    return markdown(headings, rows)


def _described(method: Method) -> About:
    """What can be told of a method without knowing it."""
    idea = (method.__doc__ or "").strip().splitlines()[0].rstrip(".")
    return About(idea, f"{type(method).__module__.rpartition('.')[2]}.py", learnt="", order="")


def _published(name: str) -> str:
    """As the paper's table 2 has it."""
    published = RECIPES["all-methods"].published
    return " / ".join(f"{published[name, shots].mean:.2f}" for shots in (1, 5) if (name, shots) in published)


def _accuracies(cell: Cell | None) -> str:
    """1-shot / 5-shot, transductive."""
    if cell is None:
        return ""
    means = [test["mean"][test["columns"].index("transductive")] for test in cell.tests]
    return " / ".join(f"{100 * mean:.2f}" for mean in means)
