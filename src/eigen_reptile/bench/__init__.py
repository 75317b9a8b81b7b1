"""Speed, measured in turns within one run, so that a noisy machine disturbs all alike. Ratios are what counts."""

from collections.abc import Callable

from eigen_reptile.bench.conv4 import conv4
from eigen_reptile.bench.direction import direction
from eigen_reptile.bench.evaluation import evaluation
from eigen_reptile.bench.ispl import ispl
from eigen_reptile.bench.maml import maml
from eigen_reptile.bench.memory import memory
from eigen_reptile.bench.methods import methods
from eigen_reptile.bench.scaling import scaling
from eigen_reptile.bench.sine import sine
from eigen_reptile.bench.turns import Figures
from eigen_reptile.bench.workers import workers
from eigen_reptile.progress import Announce

BENCHMARKS: dict[str, Callable[[int, Announce], Figures]] = {
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
}

__all__ = ["BENCHMARKS", "Figures"]
