"""Accuracy against the number of inner steps in training (paper, appendix, hyperparameter analysis)."""

from dataclasses import replace

from eigen_reptile.data import CifarFs, Dataset, MiniImagenet
from eigen_reptile.methods import METHODS
from eigen_reptile.recipes.cifar_fs import CIFAR_FS, SMALL as CIFAR_SMALL
from eigen_reptile.recipes.recipe import Recipe, Scale
from eigen_reptile.recipes.scales import paper_protocol, scaled_down
from eigen_reptile.tasks import TaskConfig
from eigen_reptile.training.config import Experiment
from eigen_reptile.training.presets import preset

STEPS = (1, 3, 5, 7, 9, 11)
METHOD = "eigen-reptile-authors"


def _cells(scale: Scale) -> dict[str, Experiment]:
    """On mini-ImageNet at full scale; otherwise on CIFAR-FS, with the learning rates chosen there for 7 steps."""
    if scale == "tune":
        return {name: cell for name, cell in CIFAR_FS.cells(scale).items() if cell.method == METHODS[METHOD]}
    if scale == "full":
        return {f"{steps}-steps": _with_steps(paper_protocol(_base(MiniImagenet())), steps) for steps in STEPS}
    small = CIFAR_SMALL._replace(steps=1200, seeds=(0,), tasks=150, monitor_tasks=30)
    base = scaled_down(_base(CifarFs()), small, small.rates[METHOD])
    return {f"{steps}-steps": _with_steps(base, steps) for steps in STEPS}


def _base(data: Dataset) -> Experiment:
    experiment = preset(data, METHODS[METHOD])
    return replace(experiment, evaluation=replace(experiment.evaluation, shots=(5,)))


def _with_steps(experiment: Experiment, steps: int) -> Experiment:
    """With this many inner steps and, by the paper's rule, enough shots that no image is drawn twice."""
    way = experiment.task.way
    assert experiment.inner.batch is not None
    shots = -(-steps * experiment.inner.batch // way) + 1
    return replace(experiment, task=TaskConfig(way, shots), inner=replace(experiment.inner, steps=steps))


INNER_STEPS = Recipe("Figure in the appendix: accuracy against the number of inner steps, 5-way 5-shot.", _cells)
