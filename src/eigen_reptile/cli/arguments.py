"""Turn command-line arguments into options; an invalid argument becomes one line that names the nearest valid one."""

import contextlib
import difflib
import io
import re
from collections.abc import Mapping, Sequence
from itertools import dropwhile, takewhile
from typing import Any, TypeVar, final

from eigen_reptile.cli.settings import OPTIONS, allowed_numbers

T = TypeVar("T")

LONGEST_VALUE = 60
"""Characters of a value in a message."""


@final
class UsageError(Exception):
    """An argument on the command line is wrong or missing."""

    def __init__(self, problem: str, choices: Sequence[str] = ()) -> None:
        super().__init__(problem)
        self.choices = choices
        """Lines that show what there is to choose from."""


def parse(kind: type[T], args: Sequence[str], command: str, default: T | None = None, about: str | None = None) -> T:
    """Let tyro parse the arguments; every error becomes a `UsageError` of one line."""
    import tyro  # here, because importing it takes longer than most commands that do not need it

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
        problem = _plain_words(_one_line(complaint.getvalue()), command, args)
        raise UsageError(f"{problem} (see {program} --help)") from None
    except (ValueError, AssertionError) as error:  # tyro reports only those of nested configs, and asserts the shell
        raise UsageError(f"{error} (see {program} --help)") from error
    if unknown and not unknown[0].startswith("-"):
        raise UsageError(f"unexpected argument {unknown[0]} (see {program} --help)")
    if unknown:
        helptext = io.StringIO()
        with contextlib.redirect_stdout(helptext), contextlib.suppress(SystemExit):
            ask(["--help"])
        flags = sorted(set(re.findall(r"--[a-z][a-z0-9.-]*", helptext.getvalue())))
        flag = unknown[0].partition("=")[0]
        if "--" in args and flag.replace("_", "-") in flags:
            raise UsageError(f"{flag} stands after --, where there are no options: leave out -- (see {program} --help)")
        raise unknown_option_error(flag, flags, program)
    return options


def unknown_option_error(flag: str, known: Sequence[str], program: str) -> UsageError:
    near = _closest_name(flag, known)
    hint = f": did you mean {near}?" if near else ""
    return UsageError(f"no option named {flag}{hint} (see {program} --help)")


def _one_line(complaint: str) -> str:
    """The message inside the box that tyro draws, without the hint that follows it below a rule."""
    lines = [line.strip("│╭╮╰╯ ") for line in complaint.splitlines()]
    below_title = dropwhile(_is_horizontal_rule, lines[1:] or lines)
    message = " ".join(part for part in takewhile(lambda line: not _is_horizontal_rule(line), below_title) if part)
    return re.sub(r"^Error parsing [\w.]+: ", "", message)  # the message of a config names its field


def _plain_words(complaint: str, command: str, args: Sequence[str]) -> str:
    """What tyro says about a value, as a sentence for people who do not know Python."""
    if found := re.match(r"invalid choice (.*) for argument '(.*)'\. Expected one of \((.*?),?\)", complaint):
        given, flag, choices = found.groups()
        return f"{flag} must be one of {choices.replace(chr(39), '')}, not {given.strip(chr(39))}"
    if found := re.match(r"Missing value for argument '(.*)'", complaint):
        return f"{found[1]} needs a value"
    if found := re.match(r"Error parsing (--[\w.-]+): ", complaint):
        flag = found[1]
        name = max((name for name in OPTIONS if f"{command} ".startswith(f"{name} ")), key=len)
        allowed, given = allowed_numbers(name, flag), _values_of(flag, args)
        return f"{flag} must be {allowed}, not {given}" if allowed else f"{flag} does not accept {given}"
    return complaint


def _values_of(flag: str, args: Sequence[str]) -> str:
    """The values that follow a flag on the command line, shortened."""
    after = list(dropwhile(lambda arg: arg.partition("=")[0].replace("_", "-") != flag, args))
    first = [arg.partition("=")[2] for arg in after[:1] if "=" in arg]
    values = " ".join([*first, *takewhile(lambda arg: not arg.startswith("--"), after[1:])])
    return values if len(values) <= LONGEST_VALUE else f"{values[:LONGEST_VALUE]} ..."


def _is_horizontal_rule(line: str) -> bool:
    return bool(line) and not line.strip("─-")  # tyro draws dashes if standard output is not UTF-8


def take_name(
    args: Sequence[str], known: Mapping[str, Any], kind: str, default: str | None = None
) -> tuple[str, Sequence[str]]:
    """Split off the first argument, which must be one of the known names; the default is used if it is an option."""
    if args and not args[0].startswith("-"):
        if args[0] not in known:
            raise UsageError(unknown_name_message(kind, args[0], list(known)))
        return args[0], args[1:]
    if default is not None:
        return default, args
    raise UsageError(f"name a {kind}: {', '.join(known)}")


def check_not_empty(args: Sequence[str]) -> None:
    """Refuse an empty argument, which is usually a shell variable that is not set."""
    for before, arg in zip(("", *args), args, strict=False):
        if not arg.strip() or (arg.startswith("--") and arg.endswith("=")):
            where = arg.removesuffix("=") if arg.strip() else before
            raise UsageError(f"the value after {where} is empty: is it a variable that is not set?")


def asks_for_help(args: Sequence[str]) -> bool:
    return "-h" in args or "--help" in args


def help_topic(args: Sequence[str]) -> str | None:
    """The word after `--help`: the group of settings to explain, or `all`."""
    after = list(dropwhile(lambda arg: arg not in ("-h", "--help"), args))[1:2]
    return next((word for word in after if not word.startswith("-")), None)


def check_positive(option: str, value: int) -> None:
    if value < 1:
        raise UsageError(f"{option} must be at least 1, not {value}")


def unknown_name_message(kind: str, name: str, known: Sequence[str]) -> str:
    """The message for an unknown name, with the most similar known one or else all of them."""
    near = _closest_name(name, known)
    hint = f"did you mean {near}?" if near else f"choose from {', '.join(known)}"
    return f"no {kind} named {name}: {hint}"


def _closest_name(name: str, known: Sequence[str]) -> str | None:
    return next(iter(difflib.get_close_matches(name, known, n=1, cutoff=0.5)), None)
