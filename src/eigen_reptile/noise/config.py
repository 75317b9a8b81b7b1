"""The settings of label noise."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, final

from eigen_reptile.errors import ConfigError

NoiseKind = Literal["none", "symmetric", "asymmetric", "matrix", "labels", "mixed"]
NoiseLocation = Literal["bank", "task", "draw"]


@final
@dataclass(frozen=True)
class NoiseConfig:
    """Label noise in meta-training."""

    kind: NoiseKind = "none"
    """How labels become wrong. symmetric: flip to any other class; asymmetric: flip to the next class; matrix: flip by
    a class-transition matrix from a file; labels: use the given labels from a file; mixed: in each training task, flip
    0, 20 or 40 % of the support labels of each class to other classes of the task, and no labels of queries."""
    rate: float | None = None
    """Probability of a wrong label (p). For `matrix` and `labels`, the probability that the file is applied to a label
    at all; default: always."""
    where: NoiseLocation = "task"
    """bank: once for each image of the training classes; task: for each image in each task, among the classes of that
    task; draw: like task, but again each time an image is drawn into a mini-batch."""
    last: Literal["ring", "chain"] = "ring"
    """Under asymmetric noise, whether the last class flips to the first one (ring) or stays clean (chain)."""
    file: Path | None = None
    """For `matrix`: a CSV table with true classes as rows and given classes as columns, named in its first column and
    first line; probabilities or counts. For `labels`: a CSV file with a column `class`, or an npz file with an array
    `clean_label`, which lists the images of each class in the order of their files."""
    column: str = "label"
    """For `labels`: the column of the CSV file, or the array of the npz file, with the given labels; CIFAR-10N has
    `worse_label` and others."""
    seed: int = 0
    """Seed of the flips with `where` bank. Flips in tasks and draws depend on the seeds of the experiment."""

    def __post_init__(self) -> None:
        if self.rate is not None and not 0 <= self.rate <= 1:
            raise ConfigError(f"`noise.rate` must be a probability from 0 to 1, not {self.rate}")
        if not 0 <= self.seed < 2**63:
            raise ConfigError(f"`noise.seed` must be an integer from 0 to 2**63 - 1, not {self.seed}")
        if self.kind == "none" and (self.rate or self.file):
            raise ConfigError(
                "`noise.rate` and `noise.file` have no effect without a kind of noise: set `noise.kind` to symmetric, "
                "asymmetric, matrix or labels"
            )
        if self.kind in ("symmetric", "asymmetric"):
            if self.rate is None:
                raise ConfigError(f"{self.kind} noise needs the probability of a wrong label: set `noise.rate`")
            if self.file is not None:
                raise ConfigError(
                    f"{self.kind} noise does not use `noise.file`: set `noise.kind` to matrix or labels to use a file"
                )
        if self.kind in ("matrix", "labels") and self.file is None:
            raise ConfigError(f"noise of the kind {self.kind} needs a file: set `noise.file`")
        if self.kind == "mixed" and (self.rate is not None or self.file or self.where != "task"):
            raise ConfigError(
                "noise of the kind mixed draws its rates in each task: leave out `noise.rate`, `noise.file` and "
                "`noise.where`"
            )
        if self.kind == "labels" and self.where != "bank":
            raise ConfigError(f"noise of the kind labels needs `noise.where` to be bank, not {self.where}")

    @property
    def apply_probability(self) -> float:
        """Probability that a label is replaced by one drawn from the transition matrix, or given in the file."""
        return 1.0 if self.rate is None else self.rate
