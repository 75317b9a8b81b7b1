"""Results and reports that the tests share. They take some seconds, so each is computed once."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from eigen_reptile.methods import METHODS
from eigen_reptile.training.experiment import run
from report.shared import IMAGE_EXPERIMENT, SINE_EXPERIMENT, as_if_on_cifar_fs, report_on


@pytest.fixture(scope="session")
def sine_results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("results")
    for name in ("reptile", "eigen-reptile-paper", "eigen-reptile-authors", "eigen-reptile-no-sign-fix"):
        run(replace(SINE_EXPERIMENT, method=METHODS[name]), folder / name)
    diverging = replace(SINE_EXPERIMENT, meta=replace(SINE_EXPERIMENT.meta, lr=(1e12,)))
    run(replace(diverging, method=METHODS["average-weights"]), folder / "average-weights")
    return folder


@pytest.fixture(scope="session")
def own_results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs on images of one's own, in a folder called `shapes`."""
    folder = tmp_path_factory.mktemp("own")
    for name in ("reptile", "eigen-reptile-paper", "eigen-reptile-authors"):
        run(replace(IMAGE_EXPERIMENT, method=METHODS[name]), folder / "shapes" / name)
    return folder


@pytest.fixture(scope="session")
def image_results(own_results: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results on images of the paper, in a folder called `shapes`."""
    folder = tmp_path_factory.mktemp("images")
    shutil.copytree(own_results / "shapes", folder / "shapes")
    return as_if_on_cifar_fs(folder)


@pytest.fixture(scope="session")
def sine_report(sine_results: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return report_on(sine_results, tmp_path_factory.mktemp("report"), f"{sine_results.name}-errors")


@pytest.fixture(scope="session")
def image_report(image_results: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return report_on(image_results, tmp_path_factory.mktemp("report"), "shapes")
