"""Random command lines: mostly sensible ones with something wrong, and some with nothing right."""

import random
from collections.abc import Sequence

from command_line import SMALL
from eigen_reptile.cli.arguments import UsageError
from eigen_reptile.cli.catalogue import entries, parse_names
from eigen_reptile.cli.settings import TYRO_FLAGS, flags

NUMBERS = (
    *("-1", "0", "1", "2", "3", "5", "0.5", "-0.0", "1e-30", "1e-400", "1e30", "1e308", "1e400", "nan", "inf", "-inf"),
    *(str(10**30), str(-(10**30)), str(2**31), str(2**63), "9" * 5000, "0x10", "1_0", "٣", "1e", "+1", "1.", " 1"),
)
WORDS = (
    *("", " ", "None", "none", "True", "symmetric", "matrix", "labels", "bank", "adam", "on", "off", "cpu", "cuda"),
    *("--", "-", "-x", "=", "--=", "all", "a b", "[red]", "[/]", "[", "%s", "{}", "\x1b[31m", "\udcff", "ü", "\n"),
    *("*", "?[a]", "~", "~nobody/x", "$HOME", "/", "..", "file", "folder", "[b] c*", "a" * 300, "/dev/null", "/proc"),
)
"""Names and values; `file` and `folder` exist, and so do the runs below."""
RUNS = ("run", "ru[n] ü", "missing", "file", "folder", "", "diverged")

BASES: dict[str, Sequence[str]] = {
    "train": (*SMALL, "--evaluation.shots", "2"),
    "run": ("--steps", "2", "--only", "reptile"),
    "eval": ("--evaluation.tasks", "2"),
    "report": (),
    "compare": (),
    "data": ("--noise.kind", "symmetric", "--noise.rate", "0.3"),
    "list": (),
}


def command_line(rng: random.Random) -> list[str]:
    """A random command line. Those that are right take about a second, hence there is no `quickstart`."""
    command = rng.choice(list(BASES))
    words = _names(command, rng)
    base = list(BASES[command])
    if command in ("train", "run", "eval", "data", "report") and rng.random() < 0.9:
        base += ["--out", rng.choice(("out", "out", "[out] ü", "file/x", "file", "folder", "", "/proc/x", "a" * 300))]
    extra = [word for _ in range(rng.randint(0, 3)) for word in _option(command, words, rng)]
    line = [command, *words, *base, *extra, *rng.choice(((), ("--quiet",), ("--json",)))]
    for _ in range(rng.choice((0, 0, 0, 1, 2))):
        _damage(line, rng)
    return line


def _names(command: str, rng: random.Random) -> list[str]:
    def one_of(known: Sequence[str]) -> str:
        return rng.choice(known) if rng.random() < 0.95 else rng.choice(WORDS)

    match command:
        case "train":
            data = rng.choice(("sine", "sine", "sine", "patterns", "folder"))
            return [one_of(list(entries("methods"))), one_of([data])]
        case "run":
            return [one_of(["tiny", "tiny", "theory-not"])]
        case "eval":
            return [one_of(RUNS), *rng.choice(((), ("sine",), ("patterns",)))]
        case "report":
            return [one_of(RUNS)]
        case "compare":
            return [one_of(RUNS), one_of(RUNS)]
        case "data":
            return ["noise", one_of(["patterns", "sine", "folder"])]
        case "list":
            return [one_of(["methods", "reptile", "sine"])] if rng.random() < 0.5 else []
    return []


def _option(command: str, words: Sequence[str], rng: random.Random) -> list[str]:
    """A flag of the command with one or two values, separated by a space or an equals sign."""
    try:
        types = parse_names(command, [*words, "--help"]).types
    except UsageError:
        types = {}
    known = sorted(flags(command, types) - TYRO_FLAGS - {"--workers", "--jobs", "--engine", "--compile"})
    flag = rng.choice(known)
    values = [rng.choice(NUMBERS if rng.random() < 0.7 else WORDS) for _ in range(rng.choice((0, 1, 1, 1, 1, 2)))]
    return [f"{flag}={values[0]}", *values[1:]] if values and rng.random() < 0.3 else [flag, *values]


def _damage(line: list[str], rng: random.Random) -> None:
    """Remove, repeat or replace a word."""
    place = rng.randrange(len(line))
    match rng.randrange(3):
        case 0:
            del line[place]
        case 1:
            line.insert(rng.randrange(len(line)), line[place])
        case _:
            line[place] = rng.choice(WORDS)
    if not line:
        line.append("list")
