"""The options of `audit`. The string below a field is its help text."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, final

import tyro

from eigen_reptile.cli.output_options import Output, Switch


@final
@dataclass(frozen=True)
class AuditOptions:
    """Find wrong labels in a folder of images that has a folder for each class, and correct them.

    Every label gets a trust: the probability that it is right, judged by a model that has learnt from all other
    pictures. Of labels with a trust of 0.3, seven in ten are expected to be wrong. How many of the first hundred labels
    of the list are expected to be wrong is therefore the sum of 1 - trust over them, which the command prints. On five
    classes of photographs that it was not fitted to, labelled by people, it was right within one or two labels for 10
    and for 50 pictures per class; for 300 per class it was right where many labels were wrong, and down to half of the
    actual number where few were. On ten classes with 10 or 50 pictures each it was too low, at worst by about half. If
    all labels are right it still expects a few to be wrong (docs/audit.md has the figures). A class with one picture
    cannot be judged.

    The command writes a table of all labels (labels.csv), and serves a page on which you accept or reject each
    suggestion; --apply then moves the accepted files, and --undo moves them back.
    """

    folder: tyro.conf.Positional[Path]
    """Folder with a folder of images for each class."""
    out: Path | None = None
    """Folder for the table, the decisions and the log of moves; default: NAME-audit beside the folder NAME."""
    below: float = 0.8
    """Labels with less trust are suspects, for which another class is suggested."""
    backbone: str = "efficientnet-lite0"
    """What turns images into features: efficientnet-lite0 (needs the extra `vision`), an ONNX file, or the folder of a
    finished run."""
    page: bool = True
    """Serve the page of suspects until Ctrl-C; never with --json or --quiet."""
    port: int = 0
    """Port of the page on this machine; 0 is any that is free."""
    apply: Switch = False
    """Move the files of all accepted suggestions into the folders of the suggested classes. A log is kept for --undo;
    nothing is ever overwritten."""
    undo: Switch = False
    """Move all files back to where they were before --apply."""
    dry_run: Switch = False
    """With --apply or --undo: only say what would be moved."""
    output: Annotated[Output, tyro.conf.arg(name="")] = Output()
    """What is printed."""
