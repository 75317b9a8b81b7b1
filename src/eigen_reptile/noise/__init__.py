"""Wrong labels, made on purpose: whatever the kind, a table says how likely each class is taken for each other.

Nothing on disk is touched, and the same seed gives the same flips to every method. Beside each label that training is
told stands whether it is right; methods may log that, and must not use it.
"""

from eigen_reptile.noise.banks import (
    Flips,
    Realised,
    class_names,
    given_labels,
    noisy_bank,
    noisy_draws,
    realised,
    with_noise,
)
from eigen_reptile.noise.config import Kind, NoiseConfig
from eigen_reptile.noise.tables import class_table, flipped, task_table

__all__ = [
    "Flips",
    "Kind",
    "NoiseConfig",
    "Realised",
    "class_names",
    "class_table",
    "flipped",
    "given_labels",
    "noisy_bank",
    "noisy_draws",
    "realised",
    "task_table",
    "with_noise",
]
