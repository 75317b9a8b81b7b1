"""Class-transition matrices from a rule or a file: row i has the probabilities of the labels given to class i."""

import logging
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from jaxtyping import Float, Int

from eigen_reptile.errors import DataError
from eigen_reptile.noise.config import NoiseConfig
from eigen_reptile.noise.label_files import ROUNDING, find_noise_file, read_transition_table

log = logging.getLogger(__name__)


@lru_cache(maxsize=2)  # for all classes of a large data set it takes longer than an iteration
def task_transition_matrix(noise: NoiseConfig, classes: int) -> Float[np.ndarray, "C C"]:
    """The transition matrix of symmetric or asymmetric noise, which depends only on the number of classes."""
    if classes == 1:
        return np.ones((1, 1))
    same = np.eye(classes)
    if noise.kind == "symmetric":
        other = (1 - same) / (classes - 1)
    else:
        other = np.roll(same, 1, axis=1)
        if noise.last == "chain":
            other[-1] = same[-1]
    return mix_with_identity(noise, other)


def class_transition_matrix(
    noise: NoiseConfig, names: Sequence[str], known_classes: set[str]
) -> Float[np.ndarray, "C C"]:
    """The transition matrix between the classes with these names.

    `known_classes` are the classes of all splits: a file may contain no others.
    """
    if noise.kind != "matrix":
        return task_transition_matrix(noise, len(names))
    return mix_with_identity(noise, transition_matrix_from_file(noise, names, known_classes))


def transition_matrix_from_file(
    noise: NoiseConfig, names: Sequence[str], known_classes: set[str]
) -> Float[np.ndarray, "C C"]:
    """The transition matrix in the noise file, restricted to the classes with these names.

    Transitions to classes of other splits are discarded and the rows rescaled to sum to one, because an image cannot
    get a label that no task contains.
    """
    rows = read_transition_table(find_noise_file(noise), known_classes)
    for what, found in {"row": set(rows), "column": {name for row in rows.values() for name in row}}.items():
        if missing := [name for name in names if name not in found]:
            raise DataError(f"{noise.file} has no {what} for {len(missing)} of the classes, such as {missing[0]}")
    weights = np.array([[rows[true][given] for given in names] for true in names])
    if lost := [name for name, row in zip(names, weights, strict=True) if row.sum() == 0]:
        raise DataError(f"{noise.file} assigns all images of {lost[0]} to classes that are not training classes")
    if (discarded := 1 - float(weights.sum(-1).mean())) > ROUNDING:
        log.warning(
            "%.1f %% of the probability in %s goes to classes of other splits: it is discarded, and each row rescaled "
            "to sum to one",
            100 * discarded, noise.file,
        )  # fmt: skip
    return normalize_rows(weights)


def mix_with_identity(noise: NoiseConfig, matrix: Float[np.ndarray, "*L C C"]) -> Float[np.ndarray, "*L C C"]:
    """The matrix that applies `matrix` with the noise's probability and keeps the label otherwise."""
    probability = noise.apply_probability
    mixture: np.ndarray = (1 - probability) * np.eye(matrix.shape[-1]) + probability * matrix
    return mixture


def normalize_rows(weights: Float[np.ndarray, "*L C C"]) -> Float[np.ndarray, "*L C C"]:
    """Rescale each row to sum to one; a row of zeros becomes that of the identity, which keeps the label."""
    total = weights.sum(-1, keepdims=True)
    identity = np.broadcast_to(np.eye(weights.shape[-1]), weights.shape)
    return np.where(total > 0, weights / np.where(total > 0, total, 1.0), identity)


def flip_labels(
    y: Int[np.ndarray, "*L m"], matrix: Float[np.ndarray, "*L C C"], uniform: Float[np.ndarray, "*L m"]
) -> Int[np.ndarray, "*L m"]:
    """Draw each label from its row of the matrix, using a uniform random number in [0, 1)."""
    cumulative = np.take_along_axis(matrix, y[..., None], axis=-2).cumsum(-1)
    given: np.ndarray = (uniform[..., None] >= cumulative[..., :-1]).sum(-1)
    return given
