"""What each command can be told. The string under a field is its help."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from eigen_reptile.config import Experiment

Switch = Annotated[bool, tyro.conf.FlagCreatePairsOff]


@dataclass(frozen=True)
class Output:
    """What is printed."""

    quiet: Switch = False
    """Print nothing but errors."""
    json: Switch = False
    """Print one JSON object in place of tables, and no progress."""


@dataclass(frozen=True)
class TrainOptions:
    """Train one experiment in a folder; the same command continues it after an interruption."""

    out: Annotated[Path | None, tyro.conf.arg(metavar="PATH", help_behavior_hint="(required)")] = None
    """Folder of the run. It is made if need be."""
    experiment: Annotated[Experiment, tyro.conf.arg(name="")] = field(default_factory=Experiment)
    """The experiment."""
    checkpoint_every: int = 1000
    """Outer iterations between two checkpoints."""
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
    """Outer iterations in place of the recipe's: a smaller experiment, recorded as such."""
    seeds: tuple[int, ...] = ()
    """Seeds in place of the recipe's."""
    checkpoint_every: int = 1000
    """Outer iterations between two checkpoints."""
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
    output: Annotated[Output, tyro.conf.arg(name="")] = Output()
    """What is printed."""


@dataclass(frozen=True)
class BenchOptions:
    """Measure speed against a plain PyTorch loop, interleaved in one run."""

    repeats: int = 7
    """Times that each contender is measured, in turn."""
    out: Path | None = None
    """JSON file for the figures."""
    output: Annotated[Output, tyro.conf.arg(name="")] = Output()
    """What is printed."""


@dataclass(frozen=True)
class QuickstartOptions:
    """Train Reptile and Eigen-Reptile on the sine wave and write a report: about two minutes."""

    out: Path = Path("runs/quickstart")
    """Folder for the runs and the report."""
    steps: int = 4000
    """Outer iterations of each method, the paper has 30,000."""
    output: Annotated[Output, tyro.conf.arg(name="")] = Output()
    """What is printed."""


@dataclass(frozen=True)
class ListOptions:
    """Show the methods, data sets, models, recipes and benchmarks there are."""

    output: Annotated[Output, tyro.conf.arg(name="")] = Output()
    """What is printed."""
