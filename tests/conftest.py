"""Shapes in signatures are checked while testing, and only then."""

import os

import torch
from jaxtyping import install_import_hook

# The tests run side by side, and so do the processes that they start.
torch.set_num_threads(1)
os.environ["OMP_NUM_THREADS"] = "1"

with install_import_hook("eigen_reptile", "beartype.beartype"):
    import eigen_reptile
    import eigen_reptile.cli  # noqa: F401
