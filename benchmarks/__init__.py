"""Benchmarks of speed and memory.

Contenders are measured in turns within one run, so that a busy machine slows all of them alike, and compared by ratios.
"""

from collections.abc import Callable

from benchmarks.audit import audit
from benchmarks.conv4 import conv4
from benchmarks.direction import direction
from benchmarks.evaluation import evaluation
from benchmarks.ispl import ispl
from benchmarks.maml import maml
from benchmarks.memory import memory
from benchmarks.methods import methods
from benchmarks.scaling import scaling
from benchmarks.sine import sine
from benchmarks.workers import workers
from eigen_reptile.report.benchmark import BenchmarkTable
from eigen_reptile.runtime.progress import StartProgress

BENCHMARKS: dict[str, Callable[[int, StartProgress], BenchmarkTable]] = {
    "sine": sine,
    "conv4": conv4,
    "scaling": scaling,
    "evaluation": evaluation,
    "ispl": ispl,
    "methods": methods,
    "maml": maml,
    "direction": direction,
    "workers": workers,
    "memory": memory,
    "audit": audit,
}

__all__ = ["BENCHMARKS", "BenchmarkTable"]
