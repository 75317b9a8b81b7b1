"""Experiments and helpers that the tests of the report share."""

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from scipy import stats

from eigen_reptile.data import CifarFs
from eigen_reptile.report.collect import Cell, collect_results
from eigen_reptile.report.pages import write_report
from eigen_reptile.runtime.checksums import with_checksum
from eigen_reptile.training.config import Experiment, MetaConfig
from eigen_reptile.training.evaluate import EvalConfig
from eigen_reptile.training.serialise import to_json
from patterns import SMALL

SINE_EXPERIMENT = Experiment(
    meta=MetaConfig(steps=8, lr=(0.5, 1e12)),
    evaluation=EvalConfig(tasks=3, monitor_tasks=2, every=4, shots=(3,), inner_steps=(0, 2), snapshot_steps=(1, 8)),
    seeds=(0, 1, 2),
    compile="off",
)
IMAGE_EXPERIMENT = replace(
    SMALL,
    meta=MetaConfig(steps=4, batch=2, lr=(0.5,)),
    evaluation=replace(SMALL.evaluation, tasks=6, every=2, shots=(1, 2), queries=2),
    seeds=(0, 1),
)


def report_on(results: Path, out: Path, section: str) -> Path:
    """The folder of a report, with a README.md into which the table of one section was inserted."""
    readme = out / "README.md"
    readme.write_text(f"before\n<!-- report:{section} -->\nold\n<!-- end -->\nafter\n")
    assert all(path.stat().st_size > 0 for path in write_report(results, out, [readme]))
    return out


def students_formula(differences: list[float]) -> tuple[float, float, float]:
    """Mean, half of its 95 % interval, and two-sided p-value, by Student's formula."""
    n = len(differences)
    mean = math.fsum(differences) / n
    error = math.sqrt(math.fsum((value - mean) ** 2 for value in differences) / (n - 1) / n)
    return mean, float(stats.t.ppf(0.975, n - 1)) * error, 2 * float(stats.t.sf(abs(mean) / error, n - 1))


def saved(folder: Path) -> dict[str, Any]:
    """The result without its checksum, so that it may be changed."""
    value: dict[str, Any] = json.loads((folder / "result.json").read_text())
    return {name: part for name, part in value.items() if name != "checksum"}


def rows(text: str, section: str = "") -> dict[str, list[str]]:
    """The rows of the table in one section of a Markdown text, or in all of it, by their first cell."""
    part = text.partition(f"## {section}\n")[2].partition("\n## ")[0] if section else text
    lines = (line[2:-2].split(" | ") for line in part.splitlines() if line.startswith("| "))
    return {first: [value.strip() for value in others] for first, *others in lines}


def as_if_on_cifar_fs(results: Path) -> Path:
    """The same results with another data set in their files: the paper's claims are about CIFAR-FS, among others."""
    for file in results.glob("**/result.json"):
        result = saved(file.parent)
        result["experiment"]["data"] = to_json(replace(SMALL, data=CifarFs()))["data"]
        file.write_text(json.dumps(with_checksum(result)))
        file.with_name("config.json").write_text(json.dumps(result["experiment"]))
    return results


def cells_of(folder: Path) -> tuple[Cell, ...]:
    """The cells of the only group of results below a folder."""
    (group,) = collect_results(folder)
    return group.cells


def changed(results: Path, target: Path, change: Callable[[str, dict[str, Any]], None]) -> Path:
    """A copy of result files, each with a change, as if something else had been measured."""
    for file in results.glob("*/result.json"):
        result = saved(file.parent)
        change(file.parent.name, result)
        (target / file.parent.name).mkdir(parents=True)
        (target / file.parent.name / "result.json").write_text(json.dumps(with_checksum(result)))
    return target
