"""Shapes in signatures are checked while testing, and only then."""

import os
import signal
from pathlib import Path

import pytest
import torch

from first_calls import begin_test, hooked

# The tests run side by side, and so do the processes that they start.
torch.set_num_threads(1)
os.environ["OMP_NUM_THREADS"] = "1"
# Tests send these signals, which nohup and shells make processes in the background ignore.
signal.signal(signal.SIGHUP, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)

with hooked("eigen_reptile"):
    import eigen_reptile
    import eigen_reptile.cli.adapting
    import eigen_reptile.cli.auditing
    import eigen_reptile.cli.checking
    import eigen_reptile.cli.classifying
    import eigen_reptile.cli.experiments
    import eigen_reptile.cli.inspect
    import eigen_reptile.cli.listing
    import eigen_reptile.demo.compute
    import eigen_reptile.demo.model_files
    import eigen_reptile.practice.backbones
    import eigen_reptile.practice.image_folder
    import eigen_reptile.report.pages  # which the command line imports only where it draws
    import eigen_reptile.report.performance
    import eigen_reptile.training.check_run  # noqa: F401


@pytest.fixture(scope="session")
def shared() -> Path:
    """Real data beside the repository."""
    folder = Path(__file__).parents[2] / "shared" / "data"
    if not folder.is_dir():
        reason = f"there is no {folder}"
        pytest.fail(reason) if os.environ.get("CI") == "true" else pytest.skip(reason)
    return folder


def pytest_runtest_setup() -> None:
    begin_test()
