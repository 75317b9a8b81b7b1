"""Training applies the configured noise to the data that it draws, and evaluation only on request."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch

from doubles import ImageDouble
from eigen_reptile.data import Banks, Sine, TaskShape
from eigen_reptile.errors import DataError
from eigen_reptile.methods import METHODS
from eigen_reptile.nn import Conv4
from eigen_reptile.noise import NoiseConfig
from eigen_reptile.runtime.progress import StartProgress, no_progress
from eigen_reptile.runtime.rng import generator_at
from eigen_reptile.training.config import Experiment
from eigen_reptile.training.data import TrainingData
from eigen_reptile.training.evaluate import EvalConfig
from eigen_reptile.training.presets import preset
from eigen_reptile.training.setup import Setup, set_up
from pixel_bank import pixel_bank


@dataclass(frozen=True)
class Pixels(ImageDouble):
    """One-pixel images whose pixel is their true class."""

    def load(self, start_progress: StartProgress) -> Banks:
        return Banks(pixel_bank(), pixel_bank(20, 6), pixel_bank(30, 6))


def set_up_with(noise: NoiseConfig, noisy_evaluation: bool = False) -> Setup:
    exp = preset(Pixels(), METHODS["reptile"])
    exp = replace(
        exp,
        noise=noise,
        task=replace(exp.task, shots=30),
        evaluation=replace(exp.evaluation, noisy=noisy_evaluation),
    )
    return set_up(exp, no_progress, "cpu")


@pytest.mark.parametrize("where", ["bank", "task", "draw"])
def test_training_draws_noisy_labels(where: str) -> None:
    setup = set_up_with(NoiseConfig("symmetric", 0.3, where))  # type: ignore[arg-type]
    is_clean = []
    for step in range(20):
        tasks, batches = TrainingData(setup).at(step)
        true = tasks.x[..., 0, 0, 0]
        drawn_true = true.gather(2, batches.chosen.flatten(2))
        drawn_given = tasks.classes.gather(2, batches.y.flatten(2))
        assert torch.equal(tasks.is_clean, tasks.classes.gather(2, tasks.y) == true)
        assert torch.equal(batches.is_clean.flatten(2), drawn_given == drawn_true)
        assert tasks.is_clean.all() == (where == "draw")
        is_clean.append(batches.is_clean.double().mean().item())
    assert 1 - float(np.mean(is_clean)) == pytest.approx(0.3, abs=0.03)


def test_evaluation_is_clean_unless_requested() -> None:
    rngs = [generator_at(0, "test", number) for number in range(50)]
    noise = NoiseConfig("symmetric", 0.5, "task")
    clean, noisy = (
        set_up_with(noise, noisy_evaluation).banks.test.draw_tasks(1, TaskShape(5, 5, 3), rngs)
        for noisy_evaluation in (False, True)
    )
    assert clean.is_clean.all()
    assert 0.4 < 1 - noisy.is_clean.mean() < 0.6
    assert np.array_equal(noisy.query_y, clean.query_y)


@pytest.mark.parametrize("where", ["draw", "task"])
def test_training_in_epochs_has_noisy_labels_too(where: str) -> None:
    exp = preset(Pixels(), METHODS["mixtfsl"])
    noise = NoiseConfig("symmetric", 0.3, where)  # type: ignore[arg-type]
    setup = set_up(replace(exp, noise=noise, model=Conv4(4, head=False)), no_progress, "cpu")
    clean_fractions = []
    for step in range(5):
        tasks, _ = TrainingData(setup).at(step)
        true = tasks.x[..., 0, 0, 0]
        assert torch.equal(tasks.is_clean, tasks.classes.gather(2, tasks.y) == true)
        clean_fractions.append(float(tasks.is_clean.double().mean()))
    assert 0.64 < np.mean(clean_fractions) < 0.76


def test_noise_that_cannot_be_applied_is_rejected() -> None:
    with pytest.raises(ValueError, match="noise"):
        Experiment(evaluation=EvalConfig(noisy=True))
    with pytest.raises(DataError, match="class labels"):
        set_up(replace(Experiment(data=Sine()), noise=NoiseConfig("symmetric", 0.5)), no_progress, "cpu")
