"""ISPL: what the selection of samples adds to the cost of an iteration."""

from dataclasses import replace
from functools import partial

from benchmarks.contenders import bare_forward_passes, bare_passes, combined_contender, library_contender, library_entry
from benchmarks.conv4 import experiment, plain_conv4
from benchmarks.timing import ContenderFactory, compare_speeds
from eigen_reptile.methods import METHODS, Ispl
from eigen_reptile.report.benchmark import BenchmarkTable
from eigen_reptile.runtime.progress import StartProgress
from eigen_reptile.training.config import Experiment

SIDES = (32, 84)
TOGETHER = "Reptile and ISPL's passes"


def ispl(repeats: int, start_progress: StartProgress) -> BenchmarkTable:
    """Outer iterations per second with ISPL, against Reptile without it and with only the passes that ISPL needs."""
    groups = {}
    for side in SIDES:
        exp = experiment(side, 3, 32)
        exp = replace(exp, task=replace(exp.task, shots=30))
        build = partial(plain_conv4, side, 3, 32)
        fitting, judging = prior_passes(exp, Ispl())
        passes = [
            partial(library_contender, exp),
            partial(bare_passes, fitting, build),
            partial(bare_forward_passes, judging, build),
        ]
        groups[f"{side} x {side}"] = {
            "reptile": library_entry(exp),
            TOGETHER: ContenderFactory(partial(combined_contender, passes)),
            **{name: library_entry(replace(exp, method=METHODS[name])) for name in WITH_ISPL},
        }
    batch, tasks = exp.inner.batch, exp.meta.batch
    assert batch is not None
    about = (
        f"Outer iterations per second of Conv4 with 32 filters on {tasks} tasks. For each task ISPL needs "
        f"{fitting.inner.steps} forward and backward passes of {batch} images in addition to the {exp.inner.steps} of "
        f"Reptile, to fit its priors, and forward passes of {judging.inner.steps * batch} images, for the losses of "
        f"the priors and of the initialisation. `{TOGETHER}` are an iteration of Reptile followed by only these "
        "passes: a lower bound on the time of an iteration with ISPL."
    )
    return compare_speeds("ISPL", about, groups, (TOGETHER, "reptile"), repeats, start_progress)


WITH_ISPL = ("reptile-ispl", "eigen-reptile-ispl")


def prior_passes(exp: Experiment, ispl: Ispl) -> tuple[Experiment, Experiment]:
    """Experiments with as many mini-batches for each task as ISPL fits its priors to, and as it computes losses of."""
    fitted = ispl.priors * (exp.inner.steps + ispl.extra_steps)
    candidates = exp.inner.steps + ispl.extra_batches
    judged = candidates * (ispl.priors if ispl.prior_batches else ispl.priors - 1) * (1 + ispl.grown)
    fitting, judging = (replace(exp, inner=replace(exp.inner, steps=steps)) for steps in (fitted, judged))
    return fitting, judging
