"""Table 1: mini-ImageNet."""

from dataclasses import replace

from eigen_reptile.data import MiniImagenet
from eigen_reptile.methods import METHODS
from eigen_reptile.nn import Conv4
from eigen_reptile.recipes import published
from eigen_reptile.recipes.cifar_fs import SMALL as CIFAR_SMALL
from eigen_reptile.recipes.recipe import Recipe, Scale
from eigen_reptile.recipes.scales import SmallScale, compared_cells, paper_protocol
from eigen_reptile.training.config import Experiment
from eigen_reptile.training.presets import preset

# One run takes as long as five on CIFAR-FS, so the learning rates are those chosen there. A cell takes about twenty
# minutes on two cores, a quarter of that after training; those in results/ were trained with `--steps 3000`.
SMALL = SmallScale(
    steps=2000,
    search=CIFAR_SMALL.search,
    seeds=(0,),
    tasks=100,
    monitor_tasks=20,
    rates=CIFAR_SMALL.rates,
)


def _cells(scale: Scale) -> dict[str, Experiment]:
    """At full scale also Eigen-Reptile with 64 filters, as in the paper."""
    cells = compared_cells(MiniImagenet(), SMALL, scale)
    if scale == "full":
        wide = replace(preset(MiniImagenet(), METHODS["eigen-reptile-authors"]), model=Conv4(filters=64))
        cells["eigen-reptile-authors-64"] = paper_protocol(wide)
    return cells


MINI_IMAGENET = Recipe(
    "Table 1: Reptile and Eigen-Reptile on mini-ImageNet, 5-way 1-shot and 5-shot.",
    _cells,
    published.accuracies_by_cell(
        published.MINI_IMAGENET,
        {
            "reptile": "reptile",
            "eigen-reptile-paper": "eigen-reptile",
            "eigen-reptile-authors": "eigen-reptile",
            "eigen-reptile-authors-64": "eigen-reptile-64",
        },
    ),
)
