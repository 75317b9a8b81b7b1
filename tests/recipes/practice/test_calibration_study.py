"""The study of calibration: the fit finds the numbers that labels were drawn with, and the counts add up."""

import numpy as np
import pytest
from scipy.special import expit

from eigen_reptile.practice.audit.calibration import inputs
from eigen_reptile.recipes.practice import calibration as module
from eigen_reptile.recipes.practice.calibration import Judged
from eigen_reptile.recipes.practice.label_errors import LabelledFeatures
from eigen_reptile.runtime.progress import no_progress


def test_the_fit_finds_the_numbers_that_wrong_labels_were_drawn_with() -> None:
    rng = np.random.default_rng(0)
    numbers = np.array([0.8, 0.1, 1.0, 0.3, 0.5])
    groups = []
    for per_class in (10, 50, 300):
        for noise in (0.05, 0.2, 0.4):
            group = []
            for _ in range(6000 // per_class):
                posterior, given = rng.dirichlet(np.ones(4), 4 * per_class), rng.integers(0, 4, 4 * per_class)
                chance = expit(inputs(posterior, given, noise) @ numbers)
                group.append(Judged(posterior, given, noise, (rng.random(len(given)) < chance).astype(float)))
            groups.append(group)
    np.testing.assert_allclose(module.fit(groups), numbers, atol=0.08)


def test_without_wrong_labels_none_is_found() -> None:
    rng = np.random.default_rng(0)
    true = np.repeat(np.arange(3), 12)
    x = rng.normal(size=(3, 16))[true] + 0.3 * rng.normal(size=(len(true), 16))
    data = LabelledFeatures(x.astype(np.float32), true, true)
    study = module.calibration({"right": data}, {"all": range(3)}, {6: 2, 12: 2}, no_progress)
    (panel,) = study.panels
    expected, found, difference = panel.lines
    assert found.y == [0, 0]
    assert difference.y == pytest.approx([-value for value in expected.y], rel=1e-4)
    assert max(expected.y) < 5
