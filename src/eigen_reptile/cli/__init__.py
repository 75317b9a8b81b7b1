"""The command line. The only place that prints."""

import contextlib
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import NoReturn

from eigen_reptile.cli import experiments, views
from eigen_reptile.cli.arguments import UsageError, asks_for_help, named
from eigen_reptile.data import DataError
from eigen_reptile.distributed import launched
from eigen_reptile.files import FolderError, RunError

COMMANDS: dict[str, tuple[Callable[[Sequence[str]], None], str]] = {
    "quickstart": (
        experiments.quickstart_command,
        "train Reptile and Eigen-Reptile on sine waves and glyphs, write a report",
    ),
    "train": (experiments.train_command, "train one experiment: train METHOD DATASET --out FOLDER"),
    "eval": (experiments.eval_command, "test a finished run once more, otherwise: eval RUN [DATASET] --out FOLDER"),
    "run": (experiments.run_command, "run all cells of a recipe: run RECIPE"),
    "report": (views.report_command, "tables, figures and an HTML page from result files"),
    "compare": (views.compare_command, "two finished runs on the same test tasks: compare RUN RUN"),
    "data": (views.data_command, "look at a data set: data noise DATASET shows what label noise does to it"),
    "bench": (views.bench_command, "measure speed against plain PyTorch"),
    "list": (views.list_command, "show what there is: methods, data sets, models, recipes"),
}

USAGE = "usage: eigen-reptile COMMAND ...\n\n" + "\n".join(
    f"  {name:<12}{about}" for name, (_, about) in COMMANDS.items()
)


def main() -> NoReturn:
    """Run the command line; exit with 2 for a wrong argument, 1 for a failure, 130 for Ctrl-C."""
    # The compiler's own deprecations are nothing that a user could mend.
    warnings.filterwarnings("ignore", category=FutureWarning, module=r"torch\.")
    with contextlib.ExitStack() as stack:
        if launched() and os.environ["RANK"] != "0":  # the lead speaks for all
            nowhere = stack.enter_context(Path(os.devnull).open("w"))
            stack.enter_context(contextlib.redirect_stdout(nowhere))
        sys.exit(run(sys.argv[1:]))


def run(args: Sequence[str]) -> int:
    """One command line, as `main` would run it; returns the exit code."""
    try:
        if not args or asks_for_help(args[:1]):
            print(USAGE + "\n\nEach command explains itself: eigen-reptile COMMAND --help")
            return 0
        if args[0] == "--version":
            print(version("eigen-reptile"))
            return 0
        name, rest = named(args, COMMANDS, "command")
        COMMANDS[name][0](rest)
    except (UsageError, FolderError, DataError) as error:
        return _fail(error, 2)
    except BrokenPipeError:  # whoever read our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for the interpreter's last flush
        return 0
    except (RunError, OSError) as error:
        return _fail(error, 1)
    except KeyboardInterrupt:
        return _fail("interrupted: repeat the command to continue from the last checkpoint", 130)
    return 0


def _fail(problem: object, code: int) -> int:
    print(f"eigen-reptile: {' '.join(str(problem).split())}", file=sys.stderr)
    return code
