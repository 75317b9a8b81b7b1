"""How the number of inner steps in training changes the accuracy (paper, appendix, hyperparameter analysis)."""

from dataclasses import replace

from eigen_reptile.config import Experiment, standard
from eigen_reptile.data import CifarFs, Dataset, MiniImagenet
from eigen_reptile.methods import METHODS
from eigen_reptile.recipes.cifar_fs import CIFAR_FS
from eigen_reptile.recipes.cifar_fs import SMALL as CIFAR_SMALL
from eigen_reptile.recipes.pictures import full, shrunk
from eigen_reptile.recipes.recipe import Recipe, Scale
from eigen_reptile.tasks import TaskConfig

STEPS = (1, 3, 5, 7, 9, 11)
METHOD = "eigen-reptile-authors"


def _cells(scale: Scale) -> dict[str, Experiment]:
    """Mini-ImageNet in full. Two cores do CIFAR-FS instead, with the rates that were chosen there for 7 steps."""
    if scale == "tune":
        return {name: cell for name, cell in CIFAR_FS.cells(scale).items() if cell.method == METHODS[METHOD]}
    if scale == "full":
        return {f"{steps}-steps": _with(full(_base(MiniImagenet())), steps) for steps in STEPS}
    small = CIFAR_SMALL._replace(steps=1200, seeds=(0,), tasks=150, monitor_tasks=30)
    base = shrunk(_base(CifarFs()), small, small.rates[METHOD])
    return {f"{steps}-steps": _with(base, steps) for steps in STEPS}


def _base(data: Dataset) -> Experiment:
    experiment = standard(data, METHODS[METHOD])
    return replace(experiment, evaluation=replace(experiment.evaluation, shots=(5,)))


def _with(experiment: Experiment, steps: int) -> Experiment:
    """So many inner steps, and the shots that the paper's rule gives them: enough for no picture to come twice."""
    way = experiment.task.way
    shots = -(-steps * experiment.inner.batch // way) + 1
    return replace(experiment, task=TaskConfig(way, shots), inner=replace(experiment.inner, steps=steps))


INNER_STEPS = Recipe("The appendix's figure: accuracy against the number of inner steps, 5-way 5-shot.", _cells)
