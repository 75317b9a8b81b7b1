"""The options of the commands that adapt and use classifiers. The string below a field is its help text.

Nothing here imports torch, so that a missing argument is reported at once.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, final

import tyro

from eigen_reptile.cli.output_options import Output


@final
@dataclass(frozen=True)
class AdaptOptions:
    """Learn to classify pictures from a few of each class, although some may be in the wrong folder.

    FOLDER has a folder for each class, with its pictures: pets/cat/1.jpg, pets/dog/2.png. One picture per class is
    enough to start; from two on, the label of each picture is judged by all other pictures, and those that are
    probably wrong count less and are listed. No setting is needed:

        eigen-reptile adapt pets --out pets.safetensors
        eigen-reptile predict pets.safetensors new/*.jpg

    The accuracy is that of leave-one-out: each picture is classified by a model that has learnt from all others. A
    wrong label counts as an error even if the answer is right. The trust of a label is the probability that it is
    right.
    """

    folder: tyro.conf.Positional[Path]
    """Folder with a folder of pictures for each class."""
    out: Annotated[Path, tyro.conf.arg(metavar="MODEL", help_behavior_hint="(required)")]
    """File for the model, such as pets.safetensors; an older model there is replaced."""
    reject: float | None = None
    """Answer `unknown` for pictures that are unlike all that were learnt from. The number is the rate of false alarms
    that you accept: with 0.05, at most 5 in 100 pictures of your classes are called unknown. With m pictures the
    smallest possible rate is 1/(m+1)."""
    backbone: str = "efficientnet-lite0"
    """What turns pictures into features: efficientnet-lite0 (trained on ImageNet), an ONNX file, or the folder of a
    finished run of this program."""
    head: str = "trust"
    """What learns from features: trust, or for comparison one of the others (a wrong name lists them)."""
    show: int = 20
    """Number of distrusted labels, and of classes, to show at most; the model contains all of them."""
    output: Annotated[Output, tyro.conf.arg(name="")] = Output()
    """What is printed."""


@final
@dataclass(frozen=True)
class PredictOptions:
    """Classify pictures with a model that `adapt` has written.

        eigen-reptile predict pets.safetensors new/1.jpg more-pictures --csv answers.csv

    The probability is that of the class, given that it is one of the model's. Pictures that cannot be read are listed
    and do not stop the others; then the exit code is 1.
    """

    model: tyro.conf.Positional[Path]
    """File of the model."""
    pictures: tyro.conf.Positional[tuple[Path, ...]]
    """Pictures, or folders of which all pictures are taken."""
    csv: Annotated[Path | None, tyro.conf.arg(metavar="FILE.csv")] = None
    """File for a table of all answers."""
    show: int = 100
    """Number of answers to show at most."""
    output: Annotated[Output, tyro.conf.arg(name="")] = Output()
    """What is printed."""


@final
@dataclass(frozen=True)
class InfoOptions:
    """Show the card of a model: what it has learnt from, its expected accuracy, and the labels it does not trust.

        eigen-reptile info pets.safetensors

    Whoever gets a model file can read this card, and learns the names of the classes and of the distrusted pictures.
    """

    model: tyro.conf.Positional[Path]
    """File of the model."""
    show: int = 20
    """Number of distrusted labels, and of classes, to show at most."""
    output: Annotated[Output, tyro.conf.arg(name="")] = Output()
    """What is printed."""


@final
@dataclass(frozen=True)
class ExportOptions:
    """Write a model as one ONNX file, which runs where neither this program nor PyTorch is installed.

        eigen-reptile export pets.safetensors --onnx pets.onnx

    It takes any number of pictures as bytes (N, height, width, channels) in the size of the backbone, and gives a
    probability for each class. Its metadata names the classes and the size. Before the file is kept, its answers are
    compared with those of PyTorch; if they differ by more than 0.0001 it is not written.
    """

    model: tyro.conf.Positional[Path]
    """File of the model."""
    onnx: Annotated[Path, tyro.conf.arg(metavar="FILE.onnx", help_behavior_hint="(required)")]
    """File to write."""
    output: Annotated[Output, tyro.conf.arg(name="")] = Output()
    """What is printed."""
