"""The recipe of noise in the support: all methods, trained once, tested at several rates."""

import pytest

from eigen_reptile.methods import METHODS
from eigen_reptile.noise import NoiseConfig
from eigen_reptile.recipes import RECIPES
from eigen_reptile.recipes.support_noise import MIXED
from eigen_reptile.training.config import Experiment

NAMES = ("support-noise", "support-noise-omniglot")


@pytest.mark.parametrize("recipe", NAMES)
def test_every_method_has_a_cell(recipe: str) -> None:
    cells = RECIPES[recipe].cells("small")
    assert {cell.method for cell in cells.values()} == set(METHODS.values())
    for name in MIXED:
        assert cells[f"{name}-mixed"].noise == NoiseConfig("mixed")
        assert cells[f"{name}-mixed"].task == cells[name].task


@pytest.mark.parametrize("recipe", NAMES)
def test_tests_differ_in_nothing_but_the_noise_of_their_support(recipe: str) -> None:
    for cell in RECIPES[recipe].cells("small").values():
        tests = RECIPES[recipe].evaluations(cell)
        assert len(tests) == 5
        found = {_of_support(test): name for name, test in tests.items()}
        assert found == {
            ("symmetric", 0.2): "symmetric-20",
            ("symmetric", 0.4): "symmetric-40",
            ("symmetric", 0.6): "symmetric-60",
            ("paired", 0.4): "paired-40",
            ("outlier", 0.4): "outlier-40",
        }
        assert all({**vars(test), "evaluation": None} == {**vars(cell), "evaluation": None} for test in tests.values())


def _of_support(exp: Experiment) -> tuple[str, float]:
    return exp.evaluation.support_noise, exp.evaluation.support_rate


def test_other_recipes_have_no_further_evaluations() -> None:
    for name, recipe in RECIPES.items():
        if name not in NAMES:
            assert all(recipe.evaluations(cell) == {} for cell in recipe.cells("small").values())
