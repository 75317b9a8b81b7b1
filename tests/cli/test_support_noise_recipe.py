"""`run` on a recipe whose cells are trained once and evaluated several times."""

from dataclasses import replace
from pathlib import Path

import pytest

from eigen_reptile.cli import experiments
from eigen_reptile.methods import METHODS
from eigen_reptile.recipes import RECIPES
from eigen_reptile.recipes.support_noise import SUPPORT_NOISE
from eigen_reptile.report.collect import read_cell
from eigen_reptile.training.config import MetaConfig
from patterns import SMALL


def test_each_trained_cell_is_evaluated_at_every_rate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    evaluation = replace(SMALL.evaluation, tasks=2, shots=(5,), queries=2)
    cell = replace(SMALL, method=METHODS["reptile"], meta=MetaConfig(steps=1, batch=1), evaluation=evaluation)
    cell = replace(cell, task=replace(cell.task, way=5))
    recipe = SUPPORT_NOISE._replace(cells=lambda scale: {"reptile": cell})
    monkeypatch.setitem(RECIPES, "support-noise", recipe)
    for _ in range(2):  # the second time, everything is there
        experiments.run_command(["support-noise", "--out", str(tmp_path), "--quiet"])
    found = {file.parent.name: read_cell(file).experiment.evaluation for file in tmp_path.glob("*/result.json")}
    assert {name: (config.support_noise, config.support_rate) for name, config in found.items()} == {
        "reptile": ("none", 0.0),
        "reptile-symmetric-20": ("symmetric", 0.2),
        "reptile-symmetric-40": ("symmetric", 0.4),
        "reptile-symmetric-60": ("symmetric", 0.6),
        "reptile-paired-40": ("paired", 0.4),
        "reptile-outlier-40": ("outlier", 0.4),
    }
    assert not list(tmp_path.glob("reptile-*/metrics*"))  # nothing was trained again
