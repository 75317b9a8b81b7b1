"""What an audit costs for each picture: features, trust, and cleanlab's way of judging the same features."""

import statistics
from collections.abc import Callable
from functools import partial

import numpy as np
import torch

from benchmarks.timing import calls_per_second, measured_table
from eigen_reptile.errors import DataError, RunError
from eigen_reptile.practice.backbones import EfficientNetLite0
from eigen_reptile.recipes.practice.label_errors import (
    JUDGES,
    NOISES,
    LabelledFeatures,
    draw_rows,
    read_cifar10n,
)
from eigen_reptile.report.benchmark import BenchmarkTable
from eigen_reptile.runtime.progress import StartProgress

WAY = 10
SIZES = (10, 50)
"""Pictures a class."""
PICTURES = 64
"""Pictures in a batch of the backbone."""
SECONDS = 0.2


def audit(repeats: int, start_progress: StartProgress) -> BenchmarkTable:
    """Milliseconds a picture of the backbone, of trust and of cleanlab's way, on CIFAR-10N."""
    try:
        data = read_cifar10n({"worse": NOISES["worse"]}, start_progress)["worse"]
    except DataError as error:
        raise RunError(f"this benchmark needs CIFAR-10N: {error}") from error
    report = start_progress("Cost of an audit", repeats * len(SIZES))
    rows: list[list[str | float]] = []
    for number, size in enumerate(SIZES):
        turns: dict[str, list[float]] = {}
        for turn in range(repeats):
            for name, milliseconds in _turn(data, size).items():
                turns.setdefault(name, []).append(milliseconds)
            report(number * repeats + turn + 1, {})
        for name, own in turns.items():
            ratio = statistics.median(mine / trust for mine, trust in zip(own, turns["trust"], strict=True))
            rows.append([f"{WAY} x {size}", name, statistics.median(own), min(own), max(own), ratio])
    about = (
        "Milliseconds a picture on one thread: EfficientNet-Lite0 on pictures that are decoded and enlarged, and "
        f"judging the labels of {WAY} classes with {SIZES[0]} or {SIZES[1]} pictures each from the same features. "
        "The contenders take turns in one process."
    )
    columns = ("pictures", "contender", "ms a picture", "fastest", "slowest", "times trust")
    return measured_table("Cost of an audit", about, columns, rows, repeats)


def _turn(data: LabelledFeatures, size: int) -> dict[str, float]:
    """Milliseconds a picture of each contender."""
    rows, backbone = draw_rows(data, size, 0, WAY), EfficientNetLite0()
    x, given = data.x[rows], data.given[rows]
    side = backbone.image_format.size
    pixels = np.random.default_rng(0).integers(0, 256, (PICTURES, side, side, 3), dtype=np.uint8)
    contenders: dict[str, Callable[[], object]] = {"backbone": partial(backbone.features, pixels)}
    contenders |= {name: partial(judge, x, given, WAY) for name, judge in JUDGES.items()}
    counts = {name: PICTURES if name == "backbone" else len(rows) for name in contenders}
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        speeds = calls_per_second(contenders, SECONDS)
    finally:
        torch.set_num_threads(threads)
    return {name: 1000 / speed / counts[name] for name, speed in speeds.items()}
