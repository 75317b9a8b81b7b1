"""What noise is asked for."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Kind = Literal["none", "symmetric", "asymmetric", "matrix", "labels"]
Place = Literal["bank", "task", "draw"]


@dataclass(frozen=True)
class NoiseConfig:
    """Wrong labels in meta-training."""

    kind: Kind = "none"
    """symmetric: any other class; asymmetric: the next class; matrix: as a table says; labels: as a file says."""
    rate: float | None = None
    """Probability of a wrong label (p). For `matrix` and `labels`, that of following them at all; default: always."""
    where: Place = "task"
    """bank: once for each picture of the training classes; task: for each picture in each task, among the classes of
    that task; draw: the same anew each time that a picture is drawn into a mini-batch."""
    last: Literal["ring", "chain"] = "ring"
    """What the last class becomes under asymmetric noise: the first one, or it stays as it is."""
    file: Path | None = None
    """For `matrix`: a CSV table with the true classes as rows and the given ones as columns, named in its first column
    and first line; probabilities, or counts. For `labels`: a CSV with a column `class`, or an npz with an array
    `clean_label`, which lists the pictures of each class in the order of their files."""
    column: str = "label"
    """For `labels`: the column of the CSV, or the array of the npz, with the classes that they are given; CIFAR-10N has
    `worse_label` and others."""
    seed: int = 0
    """Seed of the flips in the bank. Those in tasks and draws go by the experiment's seeds."""

    def __post_init__(self) -> None:
        if self.rate is not None and not 0 <= self.rate <= 1:
            raise ValueError(f"noise.rate must be a probability from 0 to 1, not {self.rate}")
        if not 0 <= self.seed < 2**63:
            raise ValueError(f"noise.seed must be a whole number from 0 to 2**63 - 1, not {self.seed}")
        if self.kind == "none" and (self.rate or self.file):
            raise ValueError("say which noise is meant: --noise.kind symmetric, asymmetric, matrix or labels")
        if self.kind in ("symmetric", "asymmetric"):
            if self.rate is None:
                raise ValueError(f"{self.kind} noise needs a probability: --noise.rate")
            if self.file is not None:
                raise ValueError(f"{self.kind} noise follows a rule, not a file: --noise.kind matrix or labels do")
        if self.kind in ("matrix", "labels") and self.file is None:
            raise ValueError(f"noise of the kind {self.kind} needs a file: --noise.file")
        if self.kind == "labels" and self.where != "bank":
            raise ValueError("given labels belong to the pictures: use --noise.where bank")

    @property
    def share(self) -> float:
        """The probability that a label is drawn from the table of this kind."""
        return 1.0 if self.rate is None else self.rate
