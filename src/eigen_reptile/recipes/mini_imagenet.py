"""Mini-ImageNet (paper, table 1)."""

from dataclasses import replace

from eigen_reptile.config import Experiment, standard
from eigen_reptile.data import MiniImagenet
from eigen_reptile.methods import METHODS
from eigen_reptile.models import Conv4
from eigen_reptile.recipes.cifar_fs import SMALL as CIFAR_SMALL
from eigen_reptile.recipes.pictures import Small, cells_of, full
from eigen_reptile.recipes.recipe import Published, Recipe, Scale

# One try here takes as long as five on CIFAR-FS, so that the rates are those that were chosen there. A cell takes some
# twenty minutes on two cores, a quarter of them after training; those in results/ were trained with `--steps 3000`.
SMALL = Small(
    steps=2000,
    search=CIFAR_SMALL.search,
    seeds=(0,),
    tasks=100,
    monitor_tasks=20,
    rates=CIFAR_SMALL.rates,
)


def _cells(scale: Scale) -> dict[str, Experiment]:
    """In full also with 64 filters, as the paper has it for Eigen-Reptile."""
    cells = cells_of(MiniImagenet(), SMALL, scale)
    if scale == "full":
        wide = replace(standard(MiniImagenet(), METHODS["eigen-reptile-authors"]), model=Conv4(filters=64))
        cells["eigen-reptile-authors-64"] = full(wide)
    return cells


MINI_IMAGENET = Recipe(
    "Table 1: Reptile and Eigen-Reptile on mini-ImageNet, 5-way 1-shot and 5-shot.",
    _cells,
    {
        ("reptile", 1): Published(49.97, 0.32),
        ("reptile", 5): Published(65.99, 0.58),
        ("eigen-reptile-paper", 1): Published(51.80, 0.90),
        ("eigen-reptile-paper", 5): Published(68.10, 0.50),
        ("eigen-reptile-authors", 1): Published(51.80, 0.90),
        ("eigen-reptile-authors", 5): Published(68.10, 0.50),
        ("eigen-reptile-authors-64", 1): Published(53.25, 0.45),
        ("eigen-reptile-authors-64", 5): Published(69.85, 0.85),
    },
)
