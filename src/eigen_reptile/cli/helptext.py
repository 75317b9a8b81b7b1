"""The help of a command, written from the source code of its options."""

import ast
import re
from collections.abc import Iterable, Mapping, Sequence

from eigen_reptile.cli.arguments import UsageError, help_topic, unknown_name_message
from eigen_reptile.cli.catalogue import RegistryKind, known_names, parse_names
from eigen_reptile.cli.layout import NO_BREAK, row, wrapped
from eigen_reptile.cli.settings import OPTIONS, Setting, default_settings, options_class, possible_settings
from eigen_reptile.cli.source import definition

COLUMN = 28
"""Where descriptions start."""

GROUP_COLUMN = 14
GENERAL = "general"
"""The group of the options outside of any config."""

FIRST = (
    *("--out", "--data.root", "--task.way", "--task.shots", "--noise.kind", "--noise.rate"),
    *("--meta.steps", "--meta.lr", "--inner.steps", "--inner.lr", "--seeds"),
)
"""The options of `train` that people change first."""

WORDS = {"train": "METHOD DATASET", "eval": "RUN [DATASET]", "run": "RECIPE", "data": "noise [DATASET]"}
"""The names that precede the options."""

WITH_NAMES = {
    "eval": "`eigen-reptile eval RUN DATASET --help` shows the options for that data set and the settings of the run.",
    "data": "`eigen-reptile data noise DATASET --help` shows the options and defaults for that data set.",
}
"""The last line for commands whose options depend on the names."""


NAMES_FIRST = "eigen-reptile train METHOD DATASET --help shows all settings and their defaults there."


def help_text(command: str, args: Sequence[str]) -> str | None:
    """The help of a command; None if it depends on names in the arguments, so that tyro has to write it."""
    if command not in OPTIONS:
        return None
    command, words, _ = parse_names(command, args)
    if command == "train":
        return _train_help(words, help_topic(args))
    if command in WITH_NAMES and words not in ((), ("noise",)):
        return None
    settings = default_settings(command)
    usage = ["usage: eigen-reptile", command, WORDS.get(command), *_positional(settings), "[OPTIONS]"]
    about = ast.get_docstring(options_class(command).node) or ""
    parts = [
        [" ".join(filter(None, usage))],
        [_wrapped_docstring(about)],
        _allowed_names(command),
        *_option_groups(settings),
    ]
    if command in WITH_NAMES:
        parts.append([wrapped(WITH_NAMES[command])])
    return _paragraphs(parts)


def _wrapped_docstring(text: str) -> str:
    """Each paragraph wrapped; an indented one is an example, and stays as it is."""
    paragraphs = text.split("\n\n")
    return "\n\n".join(one if one.startswith("  ") else wrapped(one) for one in paragraphs)


def _train_help(words: Sequence[str], topic: str | None) -> str:
    """The settings that people change first; given a method and a data set, their defaults and all other settings."""
    if len(words) < 2:
        if topic:
            raise UsageError(f"name a method and a data set: eigen-reptile train METHOD DATASET --help {topic}")
        return _paragraphs(
            [
                *_usage(WORDS["train"]),
                _allowed_names("train"),
                _common_settings(possible_settings("train")),
                [wrapped(NAMES_FIRST)],
            ]
        )
    settings = default_settings("train", _preset(*words))
    groups: dict[str, list[Setting]] = {}
    for setting in settings:
        groups.setdefault(_group(setting), []).append(setting)
    if topic is None:
        names = " ".join(words)
        return _paragraphs([*_usage(names), _common_settings(settings), _group_names(groups, names)])
    if topic in groups:
        return _paragraphs(_option_groups(groups[topic])[topic != GENERAL :])  # without that of --help
    if topic != "all":
        raise UsageError(unknown_name_message("group of settings", topic, ["all", *groups]))
    return _paragraphs(_option_groups(settings))


def _paragraphs(parts: Iterable[Sequence[str]]) -> str:
    return "\n\n".join("\n".join(lines) for lines in parts if lines)


def _usage(names: str) -> list[list[str]]:
    about = ast.get_docstring(options_class("train").node) or ""
    return [[f"usage: eigen-reptile train {names} --out PATH [OPTIONS]"], [wrapped(about)]]


def _common_settings(settings: Sequence[Setting]) -> list[str]:
    """The settings that people change first, with one clause about each."""
    by_flag = {setting.flags[0]: setting for setting in reversed(settings) if setting.flags}
    chosen = [by_flag[flag] for flag in FIRST if flag in by_flag]
    abouts = [_first_clause(setting.field.about) for setting in chosen]
    brief = [
        setting._replace(field=setting.field._replace(about=about))
        for setting, about in zip(chosen, abouts, strict=True)
    ]
    return [
        "changed most often:",
        *(line for setting in brief for line in row(_option_and_value(setting), _option_help(setting), COLUMN)),
    ]


def _first_clause(text: str) -> str:
    return re.split(r"[.;] ", text)[0].removesuffix(".") + "."


def _group_names(groups: Mapping[str, Iterable[Setting]], names: str) -> list[str]:
    lines = [
        wrapped(f"all settings by group, explained by `eigen-reptile train {names} --help GROUP` or `--help all`:")
    ]
    for group, settings in groups.items():
        members = [
            setting.flags[0].removeprefix("--").removeprefix(f"{group}.") for setting in settings if setting.flags
        ]
        lines += row(group, ", ".join(members), GROUP_COLUMN)
    return lines


def _preset(method: str, data: str) -> dict[str, ast.expr]:
    """The defaults for a method on a data set. They are computed, so that torch has to be imported."""
    from eigen_reptile.data import DATASETS
    from eigen_reptile.methods import METHODS
    from eigen_reptile.training.presets import preset

    source = repr(preset(DATASETS[data], METHODS[method]))  # of a dataclass: an expression that would make it
    return {"experiment": ast.parse(source, mode="eval").body}


def _group(setting: Setting) -> str:
    return setting.path[0] if len(setting.path) > 1 or setting.is_heading else GENERAL


def _positional(settings: Iterable[Setting]) -> list[str]:
    return [setting.field.name.upper() for setting in settings if not setting.flags and not setting.is_heading]


def _allowed_names(command: str) -> list[str]:
    """The names that can stand before the options."""
    kinds: dict[str, RegistryKind] = {"METHOD": "methods", "DATASET": "datasets", "RECIPE": "recipes"}
    shown = [(word, kind) for word, kind in kinds.items() if word in WORDS.get(command, "")]
    lists = [wrapped(f"{word}: {', '.join(known_names(kind))}", "  ") for word, kind in shown]
    return ["RUN: the folder of a finished run", *lists] if command == "eval" else lists


def _option_groups(settings: Iterable[Setting]) -> list[list[str]]:
    """The lines of each group: first the options outside of any config, then one group for each config."""
    groups: dict[tuple[str, ...], list[str]] = {(): ["options:"]}
    for setting in settings:
        if setting.is_heading:
            heading = f"{'.'.join(setting.path)} options: {setting.field.about}"
            groups[setting.path] = [wrapped(heading, "  ")]
        else:
            groups[setting.path[:-1]] += row(_option_and_value(setting), _option_help(setting), COLUMN)
    groups[()] += row("-h, --help", "Show this help and exit.", COLUMN)
    return [
        lines if len(lines) > 1 else [*lines, "  (these depend on the names before the options)"]
        for lines in groups.values()
    ]


def _option_and_value(setting: Setting) -> str:
    field = setting.field
    if not setting.flags:
        return field.name.upper()
    value = _metavar(field.annotation, field.module)
    return ", ".join(setting.flags) + (f" {value}" if value else "")


def _option_help(setting: Setting) -> str:
    """The docstring of a field and its default, unless that only means that nothing is set."""
    field = setting.field
    default = _format_default(field.default) if field.default else ""
    is_unset = default in ("", "None") or (default == "False" and len(setting.flags) == 1)
    hint = _tyro_argument("help_behavior_hint", field.annotation) or ("" if is_unset else f"(default: {default})")
    return f"{field.about} {hint.replace(' ', NO_BREAK)}".strip()


def _tyro_argument(name: str, annotation: ast.expr) -> str:
    """A string that an annotation passes to `tyro.conf.arg` under this name."""
    for node in ast.walk(annotation):
        match node:
            case ast.keyword(arg=str(given), value=ast.Constant(value=str(text))) if given == name:
                return text
    return ""


def _metavar(annotation: ast.expr, module: str) -> str:
    """The form of the value: INT, PATH, {auto,cpu}; nothing for a boolean."""
    match annotation:
        case ast.Subscript(value=ast.Name(id="Annotated"), slice=ast.Tuple(elts=[inner, *_])):
            return _tyro_argument("metavar", annotation) or _metavar(inner, module)
        case ast.Subscript(value=ast.Name(id="Literal"), slice=ast.Tuple(elts=choices)):
            return "{" + ",".join(_format_default(choice) for choice in choices) + "}"
        case ast.Subscript(value=ast.Name(id="tuple"), slice=ast.Tuple(elts=[inner, ast.Constant(value=end)])) if (
            end is ...
        ):
            return f"{_metavar(inner, module)} ..."
        case ast.Subscript(value=ast.Name(id="tuple"), slice=ast.Tuple(elts=items)):
            return " ".join(_metavar(item, module) for item in items)
        case ast.BinOp(left=left, right=ast.Constant(value=None)):
            return _metavar(left, module)
        case ast.Name(id="bool"):
            return ""
        case ast.Name(id=name) if (found := definition(name, module)) and isinstance(found.node, ast.expr):
            return _metavar(found.node, found.module)
    return ast.unparse(annotation).upper()


def _format_default(value: ast.expr) -> str:
    """A default as one would type it on the command line, if it is a literal or a path; otherwise as in the source."""
    match value:
        case ast.Constant(value=str(text)):
            return text
        case ast.Tuple(elts=items):
            return " ".join(_format_default(item) for item in items)
        case ast.Call(func=ast.Name(id="Path"), args=[ast.Constant(value=str(text))]):
            return text
    return ast.unparse(value)
