"""Evaluation: many steps on each of many tasks."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from eigen_reptile.bench.contenders import bare_passes, library_stage
from eigen_reptile.bench.conv4 import experiment, plain_conv4
from eigen_reptile.bench.turns import Contender, Entry, Figures, race
from eigen_reptile.config import Experiment
from eigen_reptile.evaluate import MODES, Mode, Start, evaluate
from eigen_reptile.progress import Announce, silent
from eigen_reptile.state import TrainState

TASKS = 4


def evaluation(repeats: int, announce: Announce) -> Figures:
    """Test tasks per second, 5-way 1-shot at 32 pixels, against the bare passes of their adaptation."""
    exp = experiment(32, 3, 32)
    exp = replace(exp, evaluation=replace(exp.evaluation, shots=(1,)))
    steps, way = exp.evaluation.after[-1], exp.task.way
    # As many passes over as many pictures as adaptation takes, as if these were training tasks.
    passes = replace(
        exp,
        task=replace(exp.task, shots=1),
        inner=replace(exp.inner, steps=steps, batch=way),
        meta=replace(exp.meta, batch=TASKS),
    )
    entries = {
        "bare passes": Entry(partial(bare_passes, passes, partial(plain_conv4, 32, 3, 32)), TASKS),
        "transductive": Entry(partial(evaluated, exp, ["transductive"]), TASKS),
        "transductive and inductive": Entry(partial(evaluated, exp, MODES), TASKS),
    }
    about = (
        f"Tasks per second: adaptation in {steps} steps of {way} pictures, and answers to {exp.evaluation.queries} "
        "queries a class, all together (transductive), or also each alone with the support (inductive). Bare passes "
        "are the forward and backward passes of the adaptation, with nothing around them."
    )
    return race("Evaluation", about, {"5-way 1-shot, 32 x 32": entries}, ("bare passes",), repeats, announce)


def evaluated(exp: Experiment, modes: Sequence[Mode]) -> Contender:
    stage = library_stage(exp)
    state = TrainState.fresh(stage)
    start = Start(state.theta, state.memory, exp.inner, exp.method)

    def contender() -> None:
        evaluate(
            stage.learner,
            stage.banks.test,
            start,
            exp.evaluation,
            "test",
            stage.tests[0],
            range(TASKS),
            modes,
            silent("", 0),
        )

    return contender
