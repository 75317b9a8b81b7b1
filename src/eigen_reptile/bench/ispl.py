"""ISPL: what choosing the samples costs on top of learning from them."""

from dataclasses import replace
from functools import partial

from eigen_reptile.bench.contenders import bare_forwards, bare_passes, library, library_entry, one_after_the_other
from eigen_reptile.bench.conv4 import experiment, plain_conv4
from eigen_reptile.bench.turns import Entry, Figures, race
from eigen_reptile.config import Experiment
from eigen_reptile.methods import METHODS, Ispl
from eigen_reptile.progress import Announce

SIDES = (32, 84)
TOGETHER = "Reptile and ISPL's passes"


def ispl(repeats: int, announce: Announce) -> Figures:
    """Outer iterations per second with ISPL, against those without it and the passes that ISPL needs by themselves."""
    groups = {}
    for side in SIDES:
        exp = experiment(side, 3, 32)
        exp = replace(exp, task=replace(exp.task, shots=30))
        build = partial(plain_conv4, side, 3, 32)
        lessons, questions = priors(exp, Ispl())
        passes = [partial(library, exp), partial(bare_passes, lessons, build), partial(bare_forwards, questions, build)]
        groups[f"{side} x {side}"] = {
            "reptile": library_entry(exp),
            TOGETHER: Entry(partial(one_after_the_other, passes)),
            **{name: library_entry(replace(exp, method=METHODS[name])) for name in WITH_ISPL},
        }
    batch, tasks = lessons.inner.batch, exp.meta.batch
    about = (
        f"Outer iterations per second of Conv4 with 32 filters on {tasks} tasks. For each task ISPL needs "
        f"{lessons.inner.steps} forward and backward passes of {batch} pictures beside the {exp.inner.steps} of "
        f"Reptile, to fit its priors, and one forward pass each of {questions.inner.steps * batch} pictures in all, to "
        f"ask them and the network that they start from. `{TOGETHER}` are an iteration of Reptile and then these "
        "passes with nothing around them: what an iteration with ISPL cannot do without."
    )
    return race("ISPL", about, groups, (TOGETHER, "reptile"), repeats, announce)


WITH_ISPL = ("reptile-ispl", "eigen-reptile-ispl")


def priors(exp: Experiment, ispl: Ispl) -> tuple[Experiment, Experiment]:
    """Experiments that draw for each task as many mini-batches as its priors learn from, and as they and the network
    that they start from are asked about."""
    learnt = ispl.priors * (exp.inner.steps + ispl.extra_steps)
    candidates = exp.inner.steps + ispl.extra_batches
    asked = candidates * (ispl.priors if ispl.prior_batches else ispl.priors - 1) * (1 + ispl.grown)
    lessons, questions = (replace(exp, inner=replace(exp.inner, steps=steps)) for steps in (learnt, asked))
    return lessons, questions
