"""The table of all methods, and descriptions of methods that nobody has described."""

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import final

import pytest
import torch
from jaxtyping import Float
from torch import Tensor

from eigen_reptile import methods
from eigen_reptile.methods import (
    METHODS,
    EigenReptile,
    GradientTransform,
    Ispl,
    Maml,
    Method,
    Reptile,
    RobustLoss,
    TrajectoryMethod,
    WithSampleSelection,
)
from eigen_reptile.methods.trajectory.trajectory_method import TaskDirections, as_directions
from eigen_reptile.nn.flat_module import FlatModule
from eigen_reptile.recipes import RECIPES
from eigen_reptile.report.benchmark import BenchmarkTable, read_benchmark
from eigen_reptile.report.describe import IDEAS, describe_method
from eigen_reptile.report.methods import methods_table
from eigen_reptile.report.pages import write_report
from report.shared import rows, saved

pytestmark = pytest.mark.xdist_group("report")  # so that shared results are computed by one worker only

ROOT = Path(__file__).parents[2]


@final
@dataclass(frozen=True)
class HalfWay(TrajectoryMethod):
    """Somebody et al. 2031, https://example.org/1234: half of the way. Use it never."""

    def direction_of(self, W: Float[Tensor, "S B rows d"]) -> TaskDirections:
        return as_directions((W[:, :, -1] - W[:, :, 0]) / 2)


@final
@dataclass(frozen=True)
class Scaled(GradientTransform):
    """A learnt factor for all inner gradients.

    It has one parameter.
    """

    def init(self, module: FlatModule, seed: int) -> Float[Tensor, "E"]:
        return torch.ones(1)

    def bind(
        self, module: FlatModule, parameters: Float[Tensor, "S B E"]
    ) -> Callable[[Float[Tensor, "S B d"]], Float[Tensor, "S B d"]]:
        return lambda gradient: parameters * gradient


@final
@dataclass(frozen=True)
class Undocumented(TrajectoryMethod):
    def direction_of(self, W: Float[Tensor, "S B rows d"]) -> TaskDirections:
        return as_directions(W[:, :, -1] - W[:, :, 0])


MAML_IDEA = "minimise the query loss after adaptation"


@pytest.mark.parametrize(
    ("method", "idea", "meta_learnt", "gradients"),
    [
        (HalfWay(), "half of the way", "network", "first"),
        (
            Maml(transform=Scaled()),
            f"{MAML_IDEA}; A learnt factor for all inner gradients",
            "network, gradient transform",
            "second",
        ),
        (
            Maml(order=1, transform=Scaled()),
            f"{MAML_IDEA}; A learnt factor for all inner gradients",
            "network, gradient transform",
            "first",
        ),
    ],
)
def test_a_new_method_is_described_by_its_own_docstring(
    monkeypatch: pytest.MonkeyPatch, method: Method, idea: str, meta_learnt: str, gradients: str
) -> None:
    monkeypatch.setitem(METHODS, "mine", method)
    table = methods_table([], {"mine": 1.5})
    assert len(table.rows) == len(METHODS)
    (row,) = (dict(zip(table.headings, row, strict=True)) for row in table.rows if row[0] == "`mine`")
    file = f"`{__name__.replace('.', '/')}.py`"
    assert list(row.values())[1:6] == [idea, file, meta_learnt, gradients, "1.50"]


@pytest.mark.parametrize("method", [Undocumented(), WithSampleSelection(HalfWay(), Ispl()), RobustLoss(HalfWay())])
def test_no_description_of_a_new_method_is_blank(method: Method) -> None:
    assert all(describe_method("mine", method))


def test_no_description_of_a_method_is_blank() -> None:
    for name, method in METHODS.items():
        description = describe_method(name, method)
        assert all(description), name
        assert "not known" not in description
        assert "https" not in description.idea
        assert (Path(methods.__path__[0]) / description.file).exists()
    assert set(IDEAS) <= set(METHODS)


def test_methods_are_described_by_their_most_specific_part() -> None:
    files = {name: describe_method(name, method).file for name, method in METHODS.items()}
    assert files["reptile"] == "trajectory/reptile.py"
    assert files["eigen-reptile-ispl"] == files["maml-ispl"] == "wrappers/ispl.py"
    assert files["eigen-reptile-spl"] == "wrappers/self_paced.py"
    assert files["reptile-gce"] == "wrappers/robust_loss.py"
    assert files["anil"] == files["fomaml"] == "gradient/maml.py"
    assert files["taml"] == "gradient/task_agnostic.py"
    assert files["warp-maml"] == "gradient/warp.py"
    assert files["sparse-maml"] == "gradient/sparse_mask.py"


def test_orders_and_meta_learnt_parameters_of_the_methods() -> None:
    found = {name: describe_method(name, method) for name, method in METHODS.items()}
    second = {"maml", "maml-ispl", "anil", "boil", "taml", "taml-theil", "meta-curvature", "warp-maml"}
    assert {name for name, about in found.items() if about.gradients == "second"} == second | {"metal", "meta-dropout"}
    without_loop = {"prototypical", "gnn", "ecm", "mixtfsl"}
    assert {name for name, about in found.items() if about.gradients == "no inner loop"} == without_loop
    more = {name: about.meta_learnt for name, about in found.items() if about.meta_learnt != "network"}
    assert more == {
        "meta-curvature": "network, gradient maps",
        "sparse-maml": "network, gradient mask",
        "warp-maml": "network with warp layers",
        "metal": "network, loss networks",
        "meta-dropout": "network with noise layers",
        "gnn": "network, graph network",
        "ecm": "network, class vectors",
        "mixtfsl": "network, class components",
    }


def test_a_variant_has_the_idea_of_its_class() -> None:
    variant = replace(EigenReptile(), combine="mean_of_products")
    assert describe_method("mine", variant).idea == describe_method("eigen-reptile", EigenReptile()).idea != ""
    assert describe_method("mine", Reptile()).idea == "towards the last point of the inner loop"


def test_every_method_has_a_row_with_its_file_cost_and_accuracy(image_results: Path, tmp_path: Path) -> None:
    shutil.copytree(image_results / "shapes", tmp_path / "results" / "all-methods")
    columns = read_benchmark(ROOT / "benchmarks" / "methods.json").columns
    found: list[list[str | float]] = [["maml", "maml", 1.0, 1.0, 1.0, 0.4], ["reptile", "reptile", 2.5, 2.5, 2.5, 1.0]]
    (tmp_path / "methods.json").write_text(json.dumps(BenchmarkTable("Methods", "", columns, found, 1, {})._asdict()))
    page = tmp_path / "methods.md"
    page.write_text("<!-- report:methods -->\n<!-- end -->\n")
    write_report(tmp_path / "results", tmp_path / "out", [page], tmp_path)
    table = rows(page.read_text())
    heading = table.pop("name")
    del table["---"]
    assert {f"`{name}`" for name in RECIPES["all-methods"].cells("small")} <= set(table)
    assert set(table) <= {f"`{name}`" for name in METHODS}
    for row in table.values():
        assert (Path(methods.__path__[0]) / row[heading.index("file")].strip("`")).exists()
    costs = {name: row[heading.index("cost")] for name, row in table.items() if row[heading.index("cost")]}
    assert costs == {"`maml`": "2.50", "`reptile`": "1.00"}
    means = [100 * test["mean"][1] for test in saved(image_results / "shapes" / "reptile")["test"]]
    assert table["`reptile`"][heading.index("CIFAR-FS, here")] == f"{means[0]:.2f} / {means[1]:.2f}"
    assert table["`reptile`"][heading.index("Omniglot, here")] == ""
