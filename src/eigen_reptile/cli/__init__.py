"""The command line: the only part of the package that prints.

Commands are imported when they run, because torch alone takes 1.4 s to import. Whatever can be answered without them
(`list`, help, unknown names and flags) is answered from the source code; see cli/catalogue.py.
"""

import contextlib
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import NamedTuple, NoReturn

from eigen_reptile.cli.arguments import UsageError, asks_for_help, check_not_empty, take_name
from eigen_reptile.cli.catalogue import check_flags, fields_as_flags
from eigen_reptile.cli.streams import discard_unwritten, prepare_streams, reader_has_gone
from eigen_reptile.errors import ConfigError, DataError, RunError
from eigen_reptile.runtime.interruption import Interrupted, signals_as_interruptions
from eigen_reptile.runtime.text import printable


class Command(NamedTuple):
    """A command and where it is implemented."""

    module: str
    """In `eigen_reptile.cli`."""
    function: str
    about: str
    """Its line in the list of commands."""

    def load(self) -> Callable[[Sequence[str]], None]:
        function: Callable[[Sequence[str]], None] = getattr(import_module(f"{__name__}.{self.module}"), self.function)
        return function


COMMANDS = {
    "quickstart": Command(
        "experiments",
        "quickstart_command",
        "train Reptile and Eigen-Reptile on sine waves and glyphs, and write a report",
    ),
    "train": Command("experiments", "train_command", "train one experiment: train METHOD DATASET --out FOLDER"),
    "eval": Command(
        "experiments",
        "eval_command",
        "evaluate a finished run again, with other settings: eval RUN [DATASET] --out FOLDER",
    ),
    "run": Command("experiments", "run_command", "run all cells of a recipe: run RECIPE"),
    "adapt": Command(
        "adapting", "adapt_command", "learn to classify your own pictures from a few of each: adapt FOLDER --out MODEL"
    ),
    "predict": Command("adapting", "predict_command", "classify pictures: predict MODEL PICTURES"),
    "info": Command("adapting", "info_command", "show what a model has learnt from, and how good it is: info MODEL"),
    "export": Command("adapting", "export_command", "write a model as one ONNX file: export MODEL --onnx FILE"),
    "report": Command("inspect", "report_command", "write tables, figures and an HTML page from result files"),
    "compare": Command("inspect", "compare_command", "compare two runs on the same test tasks: compare RUN RUN"),
    "check": Command("checking", "check_command", "look for damage in runs and caches: check FOLDER"),
    "audit": Command(
        "auditing", "audit_command", "find wrong labels in a folder of images, and correct them: audit FOLDER"
    ),
    "demo": Command("demo", "demo_command", "draw, mislabel and watch it learn, on a page in the browser"),
    "data": Command("inspect", "data_command", "show the effect of label noise on a data set: data noise DATASET"),
    "list": Command(
        "listing", "list_command", "show all methods, data sets, models and recipes, or one of them: list [NAME]"
    ),
}

USAGE = "usage: eigen-reptile COMMAND ...\n\n" + "\n".join(
    f"  {name:<12}{command.about}" for name, command in COMMANDS.items()
)

SIGNALLED = 128
"""The exit code of a command that a signal ended is this plus the number of the signal, as in shells."""


def main() -> NoReturn:
    """Run the command line; exit with 2 for a wrong argument, 1 for a failure, 128 + its number for a signal."""
    # Users can do nothing about deprecation warnings from inside torch.compile.
    warnings.filterwarnings("ignore", category=FutureWarning, module=r"torch\.")
    prepare_streams()
    with contextlib.ExitStack() as stack:
        if os.environ.get("RANK", "0") != "0" and _is_worker():  # only the lead worker prints
            nowhere = stack.enter_context(Path(os.devnull).open("w", encoding="utf-8", errors="replace"))
            stack.enter_context(contextlib.redirect_stdout(nowhere))
        try:
            code = run(sys.argv[1:])
        finally:
            discard_unwritten()
        if code > SIGNALLED:
            os._exit(code)  # without waiting for threads that are still computing
        sys.exit(code)


def _is_worker() -> bool:
    from eigen_reptile.runtime.distributed import is_worker  # imports torch

    return is_worker()


def _message(error: RunError | OSError) -> str:
    """What went wrong; of a file, the name and the reason, without the number that the system has for it."""
    if isinstance(error, OSError) and error.strerror and isinstance(error.filename, str):
        return f"cannot use {error.filename}: {error.strerror}"
    return str(error)


def run(args: Sequence[str]) -> int:
    """Run one command line and return the exit code."""
    command = args[0] if args else ""
    try:
        with signals_as_interruptions():
            code = _run(args)
            sys.stdout.flush()  # while its errors can be reported
        return code
    except UsageError as error:
        return _fail(fields_as_flags(str(error), command), 2, error.choices)
    except (ConfigError, DataError) as error:
        return _fail(fields_as_flags(str(error), command), 2)
    except (RunError, OSError) as error:
        if isinstance(error, BrokenPipeError) and reader_has_gone(sys.stdout):
            return 0  # as under `head`, which has seen enough
        return _fail(fields_as_flags(_message(error), command), 1)
    except KeyboardInterrupt as error:
        stopped = error if isinstance(error, Interrupted) else Interrupted()
        there = " from there" if stopped.where else ""
        return _fail(f"{stopped}: repeat the command to continue{there}", SIGNALLED + stopped.number)


def _run(args: Sequence[str]) -> int:
    if not args or asks_for_help(args[:1]):
        print(f"{USAGE}\n\nFor the options of a command: eigen-reptile COMMAND --help")
        return 0
    if args[0] == "--version":
        from importlib.metadata import version

        print(version("eigen-reptile"))
        return 0
    name, rest = take_name(args, COMMANDS, "command")
    check_not_empty(args)
    if asks_for_help(rest):
        from eigen_reptile.cli.helptext import help_text

        if text := help_text(name, rest):
            print(text)
            return 0
    check_flags(name, rest)
    COMMANDS[name].load()(rest)
    return 0


def _fail(problem: str, code: int, choices: Sequence[str] = ()) -> int:
    with contextlib.suppress(OSError):  # nobody reads it
        print(f"eigen-reptile: {printable(' '.join(problem.split()))}", *choices, sep="\n", file=sys.stderr, flush=True)
    return code
