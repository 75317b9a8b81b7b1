"""What each command can be told. The string under a field is its help."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import tyro

from eigen_reptile.config import Experiment
from eigen_reptile.data import Dataset, Glyphs
from eigen_reptile.evaluate import EvalConfig
from eigen_reptile.noise import NoiseConfig
from eigen_reptile.recipes import Scale
from eigen_reptile.stage import Device
from eigen_reptile.tasks import TaskConfig

Protocol = Literal["authors", "field"]
Engine = Literal["here", "ray"]
Switch = Annotated[bool, tyro.conf.FlagCreatePairsOff]


@dataclass(frozen=True)
class Output:
    """What is printed."""

    quiet: Switch = False
    """Print nothing but errors."""
    json: Switch = False
    """Print one JSON object in place of tables, and no progress."""


@dataclass(frozen=True)
class Work:
    """How experiments are carried out; it does not change what comes out."""

    checkpoint_every: int = 1000
    """Outer iterations between two checkpoints; one is made at least every two minutes."""
    device: Device = "auto"
    """Where to compute; auto takes the fastest there is."""
    workers: int = 1
    """Processes that share the tasks of each meta-batch. If one dies, all go on from the last checkpoint. To use
    several machines, start this command on each with torchrun instead."""
    timeout: float = 300.0
    """Seconds after which a worker that does not answer is taken for dead."""


@dataclass(frozen=True)
class TrainOptions:
    """Train one experiment in a folder; the same command continues it after an interruption."""

    out: Annotated[Path | None, tyro.conf.arg(metavar="PATH", help_behavior_hint="(required)")] = None
    """Folder of the run. It is made if need be."""
    experiment: Annotated[Experiment, tyro.conf.arg(name="")] = field(default_factory=Experiment)
    """The experiment."""
    protocol: Protocol | None = None
    """Evaluate as the paper's authors (10,000 tasks of 1 query a class) or as is usual in the field (600 of 15)."""
    work: Annotated[Work, tyro.conf.arg(name="")] = Work()
    """How it is carried out."""
    output: Annotated[Output, tyro.conf.arg(name="")] = Output()
    """What is printed."""


@dataclass(frozen=True)
class RunOptions:
    """Run all cells of a recipe; finished cells are skipped, interrupted ones continue."""

    out: Path
    """Folder that gets one run folder for each cell."""
    only: tuple[str, ...] = ()
    """Cells to run; all if none is named."""
    steps: int | None = None
    """Outer iterations in place of the recipe's: another experiment, recorded as such."""
    seeds: tuple[int, ...] = ()
    """Seeds in place of the recipe's."""
    protocol: Protocol | None = None
    """Evaluate as the paper's authors (10,000 tasks of 1 query a class) or as is usual in the field (600 of 15)."""
    scale: Scale = "small"
    """Size of a picture recipe: the paper's (for a GPU), or one that two cores can do. The sine wave has one size."""
    data: Path | None = None
    """Where the recipe's data set lies, if it is not NAME in the folder $EIGEN_REPTILE_DATA, or in ./data."""
    per_class: int | None = None
    """Pictures a class that an incomplete copy of mini-ImageNet has; the whole one has 600."""
    jobs: int = 1
    """Cells to run at a time, each in a process of its own with its share of the cores."""
    engine: Engine = "here"
    """Where cells run: here, or as tasks of a Ray cluster (the one that $RAY_ADDRESS names, or one on this machine)."""
    work: Annotated[Work, tyro.conf.arg(name="")] = Work()
    """How it is carried out."""
    output: Annotated[Output, tyro.conf.arg(name="")] = Output()
    """What is printed."""


@dataclass(frozen=True)
class EvalOptions:
    """Choose and test once more with what a finished run has learnt: by another protocol, or on another data set."""

    data: Dataset
    """The data set, whose pictures must be as large as those that were trained on."""
    evaluation: EvalConfig
    """The protocol; what is not said stays as it was."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="PATH", help_behavior_hint="(required)")] = None
    """Folder for the result, which can be reported and compared like that of a run."""
    protocol: Protocol | None = None
    """Evaluate as the paper's authors (10,000 tasks of 1 query a class) or as is usual in the field (600 of 15)."""
    device: Device = "auto"
    """Where to compute; auto takes the fastest there is."""
    output: Annotated[Output, tyro.conf.arg(name="")] = Output()
    """What is printed."""


@dataclass(frozen=True)
class TheoryOptions:
    """Put the theorems of the paper's appendices to the test; studies that are there already are skipped."""

    out: Path = Path("runs/theory")
    """Folder that gets one folder for each study."""
    only: tuple[str, ...] = ()
    """Studies to make; all if none is named."""
    output: Annotated[Output, tyro.conf.arg(name="")] = Output()
    """What is printed."""


@dataclass(frozen=True)
class ReportOptions:
    """Make tables, figures, the claims' verdicts and an HTML page from result files."""

    results: tyro.conf.Positional[Path]
    """Folder below which the result files lie."""
    out: Path | None = None
    """Folder for the report; default: `report` inside the results' folder."""
    insert: tuple[Path, ...] = ()
    """Markdown files in which each part between `<!-- report:NAME -->` and `<!-- end -->` is renewed."""
    benchmarks: Path | None = None
    """Folder with the files of benchmarks (NAME.json), for a page on speed and memory."""
    output: Annotated[Output, tyro.conf.arg(name="")] = Output()
    """What is printed."""


@dataclass(frozen=True)
class CompareOptions:
    """Compare two finished runs on the test tasks that both saw: differences with 95 % intervals and p-values."""

    first: tyro.conf.Positional[Path]
    """Folder of a finished run."""
    second: tyro.conf.Positional[Path]
    """Folder of the run that is subtracted from it."""
    output: Annotated[Output, tyro.conf.arg(name="")] = Output()
    """What is printed."""


@dataclass(frozen=True)
class NoiseOptions:
    """Show what noise does to the labels of a data set's training classes: how many become wrong, and which."""

    data: Dataset = Glyphs()
    """The data set."""
    noise: NoiseConfig = NoiseConfig()
    """The noise; its kind must be named."""
    task: TaskConfig = TaskConfig(way=5, shots=30)
    """The tasks in which it acts, unless it acts on the bank."""
    labels: int = 100_000
    """Labels to look at, if it acts inside tasks; of a bank all are."""
    out: Path = Path("runs/noise.png")
    """Picture of the table of transitions."""
    output: Annotated[Output, tyro.conf.arg(name="")] = Output()
    """What is printed."""


@dataclass(frozen=True)
class BenchOptions:
    """Measure speed or memory; what is compared takes turns within one run."""

    repeats: int = 11
    """Times that each contender is measured, in turn."""
    out: Path | None = None
    """JSON file for the figures."""
    output: Annotated[Output, tyro.conf.arg(name="")] = Output()
    """What is printed."""


@dataclass(frozen=True)
class QuickstartOptions:
    """Train Reptile and Eigen-Reptile on the sine wave and on glyphs, and write a report: a few minutes."""

    out: Path = Path("runs/quickstart")
    """Folder for the runs and the report."""
    steps: int = 4000
    """Outer iterations of each method on the sine wave; the paper has 30,000."""
    glyph_steps: int = 120
    """Outer iterations of each method on glyphs."""
    output: Annotated[Output, tyro.conf.arg(name="")] = Output()
    """What is printed."""


@dataclass(frozen=True)
class ListOptions:
    """Show the methods, data sets, models, recipes and benchmarks there are."""

    output: Annotated[Output, tyro.conf.arg(name="")] = Output()
    """What is printed."""
