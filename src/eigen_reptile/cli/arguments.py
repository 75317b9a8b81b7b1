"""From words to options; whatever is wrong with them becomes one line that says what would be right."""

import contextlib
import difflib
import io
import re
from collections.abc import Mapping, Sequence
from itertools import dropwhile, takewhile
from typing import Any, TypeVar

import tyro

T = TypeVar("T")


class UsageError(Exception):
    """The command line asks for something that there is not."""


def parse(kind: type[T], args: Sequence[str], command: str, default: T | None = None, about: str | None = None) -> T:
    """Options from the command line, by tyro; whatever is wrong with them becomes one line."""
    program = f"eigen-reptile {command}"

    def ask(args: Sequence[str]) -> tuple[T, list[str]]:
        return tyro.cli(
            kind,
            args=args,
            default=tyro.MISSING_NONPROP if default is None else default,
            prog=program,
            description=about or kind.__doc__,
            return_unknown_args=True,
        )

    complaint = io.StringIO()
    try:
        with contextlib.redirect_stderr(complaint):
            options, unknown = ask(args)
    except SystemExit as stop:
        if not stop.code:
            raise
        raise UsageError(f"{_one_line(complaint.getvalue())} (see {program} --help)") from None
    except ValueError as error:  # tyro reports those of nested configs only
        raise UsageError(f"{error} (see {program} --help)") from error
    if unknown and not unknown[0].startswith("-"):
        raise UsageError(f"unexpected argument {unknown[0]} (see {program} --help)")
    if unknown:
        helptext = io.StringIO()
        with contextlib.redirect_stdout(helptext), contextlib.suppress(SystemExit):
            ask(["--help"])
        flags = sorted(set(re.findall(r"--[a-z][a-z0-9.-]*", helptext.getvalue())))
        raise UsageError(no_such("option", unknown[0].partition("=")[0], flags) + f" (see {program} --help)")
    return options


def _one_line(complaint: str) -> str:
    """The message out of the box that tyro draws around it, without the help that it repeats below a rule."""
    lines = [line.strip("│╭╮╰╯ ") for line in complaint.splitlines()]
    below_title = dropwhile(_is_rule, lines[1:] or lines)
    return " ".join(part for part in takewhile(lambda line: not _is_rule(line), below_title) if part)


def _is_rule(line: str) -> bool:
    return bool(line) and not line.strip("─-")  # dashes where standard output is not UTF-8


def named(
    args: Sequence[str], known: Mapping[str, Any], kind: str, default: str | None = None
) -> tuple[str, Sequence[str]]:
    """The first argument as one of the known names, and the arguments after it."""
    if args and not args[0].startswith("-"):
        if args[0] not in known:
            raise UsageError(no_such(kind, args[0], list(known)))
        return args[0], args[1:]
    if default is not None:
        return default, args
    raise UsageError(f"name a {kind}: {', '.join(known)}")


def asks_for_help(args: Sequence[str]) -> bool:
    return "-h" in args or "--help" in args


def check_positive(option: str, value: int) -> None:
    if value < 1:
        raise UsageError(f"{option} must be at least 1, not {value}")


def no_such(kind: str, name: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(known)}"
    return f"no {kind} named {name}: {hint}"
