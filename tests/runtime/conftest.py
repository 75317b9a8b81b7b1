"""What tests of several files need."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from eigen_reptile.runtime.run_folder import RunFolder
from run_folders import CONFIG


@pytest.fixture
def run(tmp_path: Path) -> Iterator[RunFolder]:
    with RunFolder.open(tmp_path / "run", CONFIG) as run:
        yield run
