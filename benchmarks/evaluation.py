"""Evaluation on test tasks: many inner steps on each of many tasks."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from benchmarks.contenders import bare_passes, library_setup
from benchmarks.conv4 import experiment, plain_conv4
from benchmarks.timing import Contender, ContenderFactory, compare_speeds
from eigen_reptile.report.benchmark import BenchmarkTable
from eigen_reptile.runtime.progress import StartProgress, no_progress
from eigen_reptile.training.config import Experiment
from eigen_reptile.training.evaluate import Initialisation, evaluate
from eigen_reptile.training.query_batches import MODES, Mode
from eigen_reptile.training.state import TrainState

TASKS = 4


def evaluation(repeats: int, start_progress: StartProgress) -> BenchmarkTable:
    """Test tasks per second, 5-way 1-shot at 32 pixels, against the bare passes of their adaptation."""
    exp = experiment(32, 3, 32)
    exp = replace(exp, evaluation=replace(exp.evaluation, shots=(1,)))
    steps, way = exp.evaluation.inner_steps[-1], exp.task.way
    # Training tasks that need as many passes over as many images as the adaptation to test tasks.
    passes = replace(
        exp,
        task=replace(exp.task, shots=1),
        inner=replace(exp.inner, steps=steps, batch=way),
        meta=replace(exp.meta, batch=TASKS),
    )
    entries = {
        "bare passes": ContenderFactory(partial(bare_passes, passes, partial(plain_conv4, 32, 3, 32)), TASKS),
        "transductive": ContenderFactory(partial(evaluation_contender, exp, ["transductive"]), TASKS),
        "transductive and inductive": ContenderFactory(partial(evaluation_contender, exp, MODES), TASKS),
    }
    about = (
        f"Tasks per second: adaptation in {steps} steps of {way} images, and predictions for {exp.evaluation.queries} "
        "queries of each class, in one batch (transductive), or also each on its own with the support (inductive). "
        "Bare passes are only the forward and backward passes of the adaptation."
    )
    return compare_speeds(
        "Evaluation", about, {"5-way 1-shot, 32 x 32": entries}, ("bare passes",), repeats, start_progress
    )


def evaluation_contender(exp: Experiment, modes: Sequence[Mode]) -> Contender:
    setup = library_setup(exp)
    state = TrainState.fresh(setup)
    initialisation = Initialisation(state.theta, state.inner_state, exp.inner, exp.method)

    def contender() -> None:
        evaluate(
            setup.network,
            setup.banks.test,
            initialisation,
            exp.evaluation,
            "test",
            setup.tests[0],
            range(TASKS),
            modes,
            no_progress("", 0),
        )

    return contender
