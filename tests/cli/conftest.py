"""Fixtures for tests of the command line."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from command_line import Cli, Printed
from eigen_reptile.cli import run
from eigen_reptile.methods import METHODS
from eigen_reptile.nn import Mlp
from eigen_reptile.recipes import RECIPES, Recipe
from eigen_reptile.training.config import Experiment, MetaConfig
from eigen_reptile.training.evaluate import EvalConfig


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Runs a command in an empty folder, without data sets."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("EIGEN_REPTILE_DATA", raising=False)
    monkeypatch.delenv("FORCE_COLOR", raising=False)  # escape sequences would separate the words that are looked for
    return lambda *args: Printed(run(args), *capsys.readouterr())


@pytest.fixture
def recipe(monkeypatch: pytest.MonkeyPatch) -> str:
    """A recipe that takes less time than those of the paper; the scale determines the width of its network."""
    widths = {"full": 6, "small": 4, "tune": 3}
    base = Experiment(
        meta=MetaConfig(steps=3, lr=(0.5, 1.0)),
        evaluation=EvalConfig(tasks=2, monitor_tasks=2, inner_steps=(0, 2)),
        compile="off",
    )

    def cells(scale: str) -> dict[str, Experiment]:
        scaled = replace(base, model=Mlp(hidden=(widths[scale],)))
        return {name: replace(scaled, method=METHODS[name]) for name in ("reptile", "eigen-reptile")}

    monkeypatch.setitem(RECIPES, "tiny", Recipe("Two cells.", cells))
    return "tiny"


@pytest.fixture
def images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """16 classes of 8 images: each class has its own pattern, in various sizes, modes and formats."""
    monkeypatch.setenv("EIGEN_REPTILE_CACHE", str(tmp_path / "cache"))
    rng = np.random.default_rng(0)
    forms = [("L", "png"), ("RGB", "jpg"), ("RGBA", "png"), ("P", "png"), ("LA", "png"), ("1", "png"), ("RGB", "webp")]
    for number in range(16):
        folder = tmp_path / "images" / f"class {number}"
        folder.mkdir(parents=True)
        pattern = rng.permutation(np.repeat([40, 210], 8)).reshape(4, 4)
        for index in range(8):
            mode, suffix = forms[(number + index) % len(forms)]
            pixels = np.clip(pattern + rng.integers(-30, 31, size=(4, 4)), 0, 255).astype(np.uint8)
            size = (int(rng.integers(12, 60)), int(rng.integers(12, 60)))
            image = Image.fromarray(pixels).resize(size, Image.Resampling.NEAREST).convert(mode)
            image.save(folder / f"{index}.{suffix}")
    return tmp_path / "images"
