"""Commands that adapt and use classifiers: `adapt`, `predict`, `info` and `export`.

What they do is in cli/classifying.py, which is imported after the arguments were parsed, because that takes seconds.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from eigen_reptile.cli.arguments import UsageError, parse
from eigen_reptile.cli.practice_options import AdaptOptions, ExportOptions, InfoOptions, PredictOptions

T = TypeVar("T")


def adapt_command(args: Sequence[str]) -> None:
    options = _parse_options(AdaptOptions, args, "adapt FOLDER --out MODEL")
    from eigen_reptile.cli.classifying import adapt

    adapt(options)


def predict_command(args: Sequence[str]) -> None:
    options = _parse_options(PredictOptions, args, "predict MODEL PICTURES")
    if not options.pictures:
        raise UsageError("name pictures, or folders of pictures: eigen-reptile predict MODEL PICTURES")
    _check_suffix("--csv", options.csv, ".csv")
    from eigen_reptile.cli.classifying import predict

    predict(options)


def info_command(args: Sequence[str]) -> None:
    options = _parse_options(InfoOptions, args, "info MODEL")
    from eigen_reptile.cli.classifying import info

    info(options)


def export_command(args: Sequence[str]) -> None:
    options = _parse_options(ExportOptions, args, "export MODEL --onnx FILE.onnx")
    _check_suffix("--onnx", options.onnx, ".onnx")
    from eigen_reptile.cli.classifying import export

    export(options)


def _parse_options(kind: type[T], args: Sequence[str], usage: str) -> T:
    """The options; if an argument is missing, the error says how the command is used."""
    command = usage.split()[0]
    try:
        return parse(kind, args, command)
    except UsageError as error:
        if "Missing from" not in str(error):
            raise
        raise UsageError(
            f"an argument is missing: eigen-reptile {usage} (see eigen-reptile {command} --help)"
        ) from error


def _check_suffix(option: str, path: Path | None, suffix: str) -> None:
    """Refuse any other suffix, so that a picture named by mistake is not overwritten."""
    if path is not None and path.suffix.lower() != suffix:
        raise UsageError(f"{option} must name a file that ends in {suffix}, not {path}")
