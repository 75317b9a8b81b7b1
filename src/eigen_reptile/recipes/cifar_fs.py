"""Table 2: CIFAR-FS."""

from eigen_reptile.data import CifarFs
from eigen_reptile.recipes import published
from eigen_reptile.recipes.recipe import Recipe, Scale
from eigen_reptile.recipes.scales import WIDE_GRID, LearningRates, SearchRound, SmallScale, compared_cells
from eigen_reptile.training.config import Experiment

SMALL = SmallScale(
    steps=4000,
    # The first round only showed that the smallest rate is worse than the others, so a second round with longer runs
    # continued from the largest.
    search=(SearchRound(400, WIDE_GRID), SearchRound(1000, {0.004: (1.0, 2.0), 0.008: (1.0,)}, "-long")),
    seeds=(0, 1),
    tasks=200,
    monitor_tasks=60,
    # The best validation accuracy in the longer round (docs/results.md). For Reptile, 0.008 was 0.1 points better than
    # 0.004 on 150 tasks, which is not significant; the cell had already been trained with 0.004, so that was kept.
    rates={
        "reptile": LearningRates(0.004, 1.0),
        "eigen-reptile-paper": LearningRates(0.004, 2.0),
        "eigen-reptile-authors": LearningRates(0.004, 2.0),
    },
)


def _cells(scale: Scale) -> dict[str, Experiment]:
    return compared_cells(CifarFs(), SMALL, scale)


CIFAR_FS = Recipe(
    "Table 2: Reptile and Eigen-Reptile on CIFAR-FS, 5-way 1-shot and 5-shot.",
    _cells,
    published.accuracies_by_cell(
        published.CIFAR_FS,
        {
            "reptile": "reptile",
            "eigen-reptile-paper": "eigen-reptile",
            "eigen-reptile-authors": "eigen-reptile",
        },
    ),
)
