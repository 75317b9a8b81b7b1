"""Every method: what an outer iteration costs, each with the settings to begin with."""

from functools import partial

from eigen_reptile.bench.contenders import library
from eigen_reptile.bench.conv4 import Noise
from eigen_reptile.bench.turns import Entry, Figures, race
from eigen_reptile.config import standard
from eigen_reptile.methods import METHODS
from eigen_reptile.progress import Announce

PICTURES = Noise(32, 3)


def methods(repeats: int, announce: Announce) -> Figures:
    """Outer iterations per second of each method on pictures of 32 x 32, with the settings to begin with."""
    entries = {name: Entry(partial(library, standard(PICTURES, method))) for name, method in METHODS.items()}
    about = (
        "Outer iterations per second on 32 x 32 x 3, each method with its own network, tasks and steps: those of "
        "`train METHOD cifar-fs`. What costs more need not learn less in the same time."
    )
    # One at a time with Reptile, so that no more than two networks lie in memory at once.
    groups = {name: {"reptile": entries["reptile"], name: entry} for name, entry in entries.items()}
    figures = race("Methods", about, groups, ("reptile",), repeats, announce)
    return figures._replace(rows=[row for row in figures.rows if row[0] == row[1]])
