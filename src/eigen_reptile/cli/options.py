"""The options of each command. The string below a field is its help text."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal, final

import tyro

from eigen_reptile.cli.output_options import Output
from eigen_reptile.data import Dataset, Glyphs
from eigen_reptile.noise import NoiseConfig
from eigen_reptile.recipes import Scale
from eigen_reptile.tasks import TaskConfig
from eigen_reptile.training.config import Experiment
from eigen_reptile.training.evaluate import EvalConfig
from eigen_reptile.training.setup import Device

Protocol = Literal["authors", "field"]
Engine = Literal["here", "ray"]


@final
@dataclass(frozen=True)
class Work:
    """How experiments are executed; this does not change their results."""

    checkpoint_every: int = 1000
    """Outer iterations between two checkpoints; one is saved at least every two minutes."""
    device: Device = "auto"
    """Device to compute on; `auto` is the fastest one available."""
    workers: int = 1
    """Processes that share the tasks of each meta-batch. If one dies, all continue from the last checkpoint. To use
    several machines, start this command with torchrun on each of them instead."""
    timeout: float = 300.0
    """Seconds without a sign of life after which a worker, or one of several cells at a time, is considered dead."""


@final
@dataclass(frozen=True)
class TrainOptions:
    """Train one experiment in a folder; after an interruption, the same command continues it."""

    out: Annotated[Path | None, tyro.conf.arg(metavar="PATH", help_behavior_hint="(required)")] = None
    """Folder of the run; it is created if it does not exist."""
    experiment: Annotated[Experiment, tyro.conf.arg(name="")] = field(default_factory=Experiment)
    """The experiment."""
    protocol: Protocol | None = None
    """Evaluation protocol: that of the paper's authors (10,000 tasks with 1 query per class), or the usual one of the
    field (600 tasks with 15)."""
    work: Annotated[Work, tyro.conf.arg(name="")] = Work()
    """Execution."""
    output: Annotated[Output, tyro.conf.arg(name="")] = Output()
    """What is printed."""


@final
@dataclass(frozen=True)
class RunOptions:
    """Run all cells of a recipe; finished cells are skipped, interrupted ones continue."""

    out: Path
    """Folder that will contain one run folder per cell."""
    only: tuple[str, ...] = ()
    """Cells to run; default: all."""
    steps: int | None = None
    """Outer iterations, overriding the recipe; the folder and the result record the number that was used."""
    seeds: tuple[int, ...] = ()
    """Seeds, overriding the recipe."""
    protocol: Protocol | None = None
    """Evaluation protocol: that of the paper's authors (10,000 tasks with 1 query per class), or the usual one of the
    field (600 tasks with 15)."""
    scale: Scale = "small"
    """Scale of a recipe on images: `full` is that of the paper (needs a GPU), `small` suits two CPU cores, and `tune`
    searches for the learning rates of `small`. The sine wave has only one scale."""
    data: Path | None = None
    """Folder or archive of the recipe's data set; default: NAME in the folder $EIGEN_REPTILE_DATA, or in ./data."""
    per_class: int | None = None
    """Images per class in an incomplete copy of mini-ImageNet; the complete one has 600."""
    jobs: int = 1
    """Cells to run at a time, each in its own process with an equal number of cores."""
    engine: Engine = "here"
    """Where cells run: on this machine (`here`), or on a Ray cluster (that at $RAY_ADDRESS, or a local one)."""
    work: Annotated[Work, tyro.conf.arg(name="")] = Work()
    """Execution."""
    output: Annotated[Output, tyro.conf.arg(name="")] = Output()
    """What is printed."""


@final
@dataclass(frozen=True)
class EvalOptions:
    """Evaluate a finished run again: with another evaluation protocol, or on another data set."""

    data: Dataset
    """The data set; its images must be of the same size as the training images."""
    evaluation: EvalConfig
    """The evaluation; the defaults are the settings of the run."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="PATH", help_behavior_hint="(required)")] = None
    """Folder for the result; `report` and `compare` accept it like that of a run."""
    protocol: Protocol | None = None
    """Evaluation protocol: that of the paper's authors (10,000 tasks with 1 query per class), or the usual one of the
    field (600 tasks with 15)."""
    device: Device = "auto"
    """Device to compute on; `auto` is the fastest one available."""
    output: Annotated[Output, tyro.conf.arg(name="")] = Output()
    """What is printed."""


@final
@dataclass(frozen=True)
class StudyOptions:
    """Run studies: of the theorems in the paper's appendices, or of heads and label errors in practice.

    Finished studies are skipped.
    """

    out: Path = Path("runs")
    """Folder that will contain one folder per study; default: runs/theory or runs/practice."""
    only: tuple[str, ...] = ()
    """Studies to run; default: all."""
    output: Annotated[Output, tyro.conf.arg(name="")] = Output()
    """What is printed."""


@final
@dataclass(frozen=True)
class ReportOptions:
    """Write tables, figures, verdicts on the paper's claims and an HTML page from result files."""

    results: tyro.conf.Positional[Path]
    """Folder that is searched for result files, including its subfolders."""
    out: Path | None = None
    """Folder for the report; default: `report` inside the folder of the results."""
    insert: tuple[Path, ...] = ()
    """Markdown files in which every section between `<!-- report:NAME -->` and `<!-- end -->` is updated."""
    benchmarks: Path | None = None
    """Folder with results of benchmarks (NAME.json), for a page on speed and memory."""
    output: Annotated[Output, tyro.conf.arg(name="")] = Output()
    """What is printed."""


@final
@dataclass(frozen=True)
class CompareOptions:
    """Compare two finished runs on their common test tasks: differences with 95 % intervals and p-values."""

    first: tyro.conf.Positional[Path]
    """Folder of a finished run."""
    second: tyro.conf.Positional[Path]
    """Folder of the run whose scores are subtracted."""
    output: Annotated[Output, tyro.conf.arg(name="")] = Output()
    """What is printed."""


@final
@dataclass(frozen=True)
class CheckOptions:
    """Look for damage: compare the checksums of every run and cache in a folder and below it, and change nothing.

    Of a run it reads the settings, the result, the metrics and the checkpoints, finished or not. A line of the answer
    names the file and what to do. The exit code is 0 if everything is intact, and 1 if anything is damaged, so that a
    script can ask before it copies or publishes results: eigen-reptile check runs && rsync -a runs elsewhere:
    """

    folder: tyro.conf.Positional[Path]
    """Folder of a run, of many runs, or of cached data (the one in $EIGEN_REPTILE_CACHE)."""
    output: Annotated[Output, tyro.conf.arg(name="")] = Output()
    """What is printed."""


@final
@dataclass(frozen=True)
class NoiseOptions:
    """Show the effect of label noise on the training classes of a data set: rate and class-transition matrix."""

    data: Dataset = Glyphs()
    """The data set."""
    noise: NoiseConfig = NoiseConfig()
    """The noise; its kind is required."""
    task: TaskConfig = TaskConfig(way=5, shots=30)
    """The training tasks; they do not matter for noise in the bank."""
    labels: int = 100_000
    """Labels to sample for noise in tasks; for noise in the bank all labels are counted."""
    out: Path = Path("runs/noise.png")
    """File for the figure of the class-transition matrix."""
    output: Annotated[Output, tyro.conf.arg(name="")] = Output()
    """What is printed."""


@final
@dataclass(frozen=True)
class QuickstartOptions:
    """Train Reptile and Eigen-Reptile on the sine wave and on glyphs, and write a report; takes a few minutes."""

    out: Path = Path("runs/quickstart")
    """Folder for the runs and the report."""
    steps: int = 4000
    """Outer iterations of each method on the sine wave; the paper uses 30,000."""
    glyph_steps: int = 120
    """Outer iterations of each method on glyphs."""
    output: Annotated[Output, tyro.conf.arg(name="")] = Output()
    """What is printed."""


@final
@dataclass(frozen=True)
class ListOptions:
    """Show all methods, data sets, models and recipes on one screen, or what is known about some of them."""

    names: tyro.conf.Positional[tuple[str, ...]] = ()
    """Names to describe, or kinds (methods, datasets, models, recipes) of which every entry is described; default: one
    line for each."""
    output: Annotated[Output, tyro.conf.arg(name="")] = Output()
    """What is printed."""
