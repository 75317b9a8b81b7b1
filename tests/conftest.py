"""Shapes in signatures are checked while testing, and only then."""

import torch
from jaxtyping import install_import_hook

torch.set_num_threads(1)  # the tests run side by side

with install_import_hook("eigen_reptile", "beartype.beartype"):
    import eigen_reptile
    import eigen_reptile.cli  # noqa: F401
