"""Every method: what an outer iteration costs."""

from eigen_reptile.bench.contenders import library_entry
from eigen_reptile.bench.conv4 import Noise
from eigen_reptile.bench.turns import Figures, race
from eigen_reptile.config import standard
from eigen_reptile.methods import METHODS
from eigen_reptile.progress import Announce

PICTURES, FILTERS = Noise(32, 3), 32


def methods(repeats: int, announce: Announce) -> Figures:
    """Outer iterations per second of each method on pictures of 32 x 32."""
    experiments = {name: standard(PICTURES, method, FILTERS) for name, method in METHODS.items()}
    entries = {name: library_entry(exp) for name, exp in experiments.items()}
    about = (
        f"Outer iterations per second on 32 x 32 x 3 with {FILTERS} filters, each method with its own tasks and steps: "
        "those of `train METHOD cifar-fs`. What costs more need not learn less in the same time."
    )
    # One at a time with Reptile, so that no more than two networks lie in memory at once.
    groups = {name: {"reptile": entries["reptile"], name: entry} for name, entry in entries.items()}
    figures = race("Methods", about, groups, ("reptile",), repeats, announce)
    return figures._replace(rows=[row for row in figures.rows if row[0] == row[1]])
