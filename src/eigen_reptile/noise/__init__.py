"""Artificial label noise: whatever its kind, it is described by a class-transition matrix.

No file of a data set is changed, and the same seed gives the same flips to every method. Each noisy label comes with
`is_clean`, which says whether it is the true label; methods may log that, but must not learn from it.
"""

from eigen_reptile.noise.banks import (
    LabelFlipper,
    NoisySource,
    add_noise,
    class_names,
    flip_draws,
    given_labels,
    noisy_bank,
)
from eigen_reptile.noise.config import NoiseConfig, NoiseKind, NoiseLocation
from eigen_reptile.noise.measure import MeasuredNoise, measure_noise
from eigen_reptile.noise.support import (
    LARGEST_RATE,
    MIXED_RATES,
    SupportNoise,
    check_support_noise,
    outside_task,
    support_labels,
    with_support_noise,
    wrong_count,
)
from eigen_reptile.noise.transitions import class_transition_matrix, flip_labels, task_transition_matrix

__all__ = [
    "LARGEST_RATE",
    "MIXED_RATES",
    "LabelFlipper",
    "MeasuredNoise",
    "NoiseConfig",
    "NoiseKind",
    "NoiseLocation",
    "NoisySource",
    "SupportNoise",
    "add_noise",
    "check_support_noise",
    "class_names",
    "class_transition_matrix",
    "flip_draws",
    "flip_labels",
    "given_labels",
    "measure_noise",
    "noisy_bank",
    "outside_task",
    "support_labels",
    "task_transition_matrix",
    "with_support_noise",
    "wrong_count",
]
