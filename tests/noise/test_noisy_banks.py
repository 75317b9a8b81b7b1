"""Label noise flips the right fraction of the labels, reports which are clean, and changes nothing else."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from eigen_reptile.data import Banks, FiniteBank, ImageBank, Samples, Sine, TaskShape, sample_tasks
from eigen_reptile.errors import DataError
from eigen_reptile.noise import LabelFlipper, NoiseConfig, add_noise, flip_draws, noisy_bank
from eigen_reptile.runtime.progress import no_progress
from eigen_reptile.runtime.rng import generator_at
from eigen_reptile.tasks import Batches, Tasks, draw_batches
from pixel_bank import CLASSES, KNOWN, NAMES, matrix_rows, pixel_bank, transition_rates, write_csv

BANKS = Banks(pixel_bank(), pixel_bank(20, 6), pixel_bank(30, 6))


def draw(noise: NoiseConfig, step: int, inner_steps: int = 7, flip_tasks: bool = False) -> tuple[Tasks, Batches]:
    """Five 5-way 30-shot training tasks and their mini-batches, drawn as in one training iteration."""
    banks, flipper = add_noise(BANKS, noise, evaluation=False)
    tasks = sample_tasks(banks.train, TaskShape(5, 30, 2), 5, [generator_at(0, "tasks", step)])
    rngs = [generator_at(0, "batches", step)]
    batches = draw_batches(tasks, inner_steps, 10, rngs)
    return flip_draws(tasks, batches, flipper, rngs, flip_tasks) if flipper else (tasks, batches)


def expected_rates(kind: str, rate: float, classes: int) -> np.ndarray:
    expected = (1 - rate) * np.eye(classes)
    for true in range(classes):
        if kind == "symmetric":
            expected[true, [other for other in range(classes) if other != true]] = rate / (classes - 1)
        else:
            expected[true, (true + 1) % classes] = rate
    if kind == "chain":
        expected[-1] = np.eye(classes)[-1]
    return expected


def all_samples(bank: FiniteBank) -> Samples:
    return bank.take(np.arange(bank.size).reshape(1, 1, -1), [np.random.default_rng(0)])


@pytest.mark.parametrize("rate", [0.0, 0.2, 0.5, 1.0])
@pytest.mark.parametrize("kind", ["symmetric", "asymmetric"])
def test_rates_inside_tasks(kind: str, rate: float) -> None:
    """The transition rates over 75,000 labels."""
    true, given = [], []
    for step in range(100):
        tasks, _ = draw(NoiseConfig(kind, rate, "task"), step)  # type: ignore[arg-type]
        true.append((tasks.x[..., 0, 0, 0, None] == tasks.classes[:, :, None]).int().argmax(-1))
        given.append(tasks.y)
        assert torch.equal(tasks.is_clean, true[-1] == tasks.y)
    found = transition_rates(torch.stack(true).numpy(), torch.stack(given).numpy(), 5)
    np.testing.assert_allclose(found, expected_rates(kind, rate, 5), atol=0.015)
    wrong = (torch.stack(true) != torch.stack(given)).double().mean().item()
    assert wrong == pytest.approx(rate, abs=0.01)


@pytest.mark.parametrize("kind", ["symmetric", "asymmetric"])
def test_rates_of_draws(kind: str) -> None:
    """An image that is drawn twice can have a clean label once and a wrong one the other time."""
    is_clean, differs = [], []
    for step in range(30):
        tasks, batches = draw(NoiseConfig(kind, 0.4, "draw"), step, inner_steps=30)  # type: ignore[arg-type]
        assert tasks.is_clean.all()
        true = tasks.y.gather(2, batches.chosen.flatten(2)).view_as(batches.y)
        assert torch.equal(batches.is_clean, true == batches.y)
        is_clean.append(batches.is_clean.double().mean().item())
        for chosen, given in zip(batches.chosen[0].flatten(1), batches.y[0].flatten(1), strict=True):
            first, second = chosen[:150].argsort(), 150 + chosen[150:300].argsort()
            differs.append((given[first] != given[second]).double().mean().item())
    assert 1 - np.mean(is_clean) == pytest.approx(0.4, abs=0.01)
    assert 0.3 < float(np.mean(differs)) < 0.8


def test_methods_that_learn_from_queries_get_noisy_support_and_queries() -> None:
    noise = NoiseConfig("symmetric", 0.4, "draw")
    for step in range(5):
        clean, clean_batches = draw(NoiseConfig(), step)
        tasks, batches = draw(noise, step, flip_tasks=True)
        assert torch.equal(tasks.is_clean, tasks.y == clean.y)
        assert 0.25 < (tasks.y != clean.y).double().mean() < 0.55
        assert (tasks.query_y != clean.query_y).any()
        assert torch.equal(batches.is_clean, batches.y == clean_batches.y)


def test_the_first_draws_do_not_depend_on_how_many_follow() -> None:
    noise = NoiseConfig("symmetric", 0.4, "draw")
    tasks, batches = draw(NoiseConfig(), 0, inner_steps=15)
    flipper = LabelFlipper(noise, NAMES, KNOWN)
    _, many = flip_draws(tasks, batches, flipper, [generator_at(1, "batches")], flip_tasks=False)
    first_three = Batches(*(part[:, :, :3] for part in batches))
    _, few = flip_draws(tasks, first_three, flipper, [generator_at(1, "batches")], flip_tasks=False)
    assert torch.equal(few.y, many.y[:, :, :3])


@pytest.mark.parametrize("rate", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("kind", ["symmetric", "asymmetric", "chain"])
def test_rates_in_the_bank(kind: str, rate: float) -> None:
    noise = NoiseConfig("symmetric" if kind == "symmetric" else "asymmetric", rate, "bank")
    noise = replace(noise, last="chain") if kind == "chain" else noise
    noisy = noisy_bank(pixel_bank(each=5000), noise, KNOWN)
    samples = all_samples(noisy)
    true, given = samples.x[0, 0, :, 0, 0, 0], samples.y[0, 0]
    np.testing.assert_allclose(transition_rates(true, given, CLASSES), expected_rates(kind, rate, CLASSES), atol=0.03)
    assert np.array_equal(samples.is_clean[0, 0], true == given)
    assert int(noisy.sizes.sum()) == noisy.size == CLASSES * 5000


@pytest.mark.parametrize("counts", [False, True])
def test_a_matrix_acts_on_the_bank(tmp_path: Path, counts: bool) -> None:
    """The file has 26 classes, of which the last 6 are not training classes."""
    names = [f"class-{number:02d}" for number in range(26)]
    weights = np.random.default_rng(0).random((26, 26)) + 10 * np.eye(26)
    matrix = weights / weights.sum(1, keepdims=True)
    file = write_csv(tmp_path, matrix_rows((1e6 * matrix).round().astype(int) if counts else matrix, names))
    noisy = noisy_bank(pixel_bank(each=5000), NoiseConfig("matrix", where="bank", file=file), set(names))
    samples = all_samples(noisy)
    inside = matrix[:CLASSES, :CLASSES] / matrix[:CLASSES, :CLASSES].sum(1, keepdims=True)
    found = transition_rates(samples.x[0, 0, :, 0, 0, 0], samples.y[0, 0], CLASSES)
    np.testing.assert_allclose(found, inside, atol=0.03)


def test_tasks_of_a_noisy_bank_know_which_labels_are_clean() -> None:
    for step in range(20):
        tasks, batches = draw(NoiseConfig("asymmetric", 0.5, "bank"), step)
        given = tasks.classes.gather(2, tasks.y)
        assert torch.equal(tasks.is_clean, tasks.x[..., 0, 0, 0] == given)
        drawn = tasks.is_clean.gather(2, batches.chosen.flatten(2)).view_as(batches.is_clean)
        assert torch.equal(batches.is_clean, drawn)
    assert 0.3 < tasks.is_clean.double().mean() < 0.7


def test_evaluation_is_clean_unless_requested() -> None:
    rngs = [generator_at(0, "test", number) for number in range(50)]
    noise = NoiseConfig("symmetric", 0.5, "task")
    clean, noisy = (
        add_noise(BANKS, noise, evaluation).banks.test.draw_tasks(1, TaskShape(5, 5, 3), rngs)
        for evaluation in (False, True)
    )
    assert clean.is_clean.all()
    assert 0.4 < 1 - noisy.is_clean.mean() < 0.6
    assert np.array_equal(noisy.query_y, clean.query_y)
    with pytest.raises(DataError, match=r"`evaluation\.noisy`.*`noise\.where` to be task, not bank"):
        add_noise(BANKS, replace(noise, where="bank"), evaluation=True)


@pytest.mark.parametrize("where", ["bank", "task", "draw"])
def test_the_same_seed_gives_the_same_flips_and_images(where: str) -> None:
    noise = NoiseConfig("symmetric", 0.5, where)  # type: ignore[arg-type]
    (first, first_batches), (second, second_batches) = draw(noise, 0), draw(noise, 0)
    assert all(torch.equal(one, other) for one, other in zip(first, second, strict=True))
    assert all(torch.equal(one, other) for one, other in zip(first_batches, second_batches, strict=True))
    assert (~first_batches.is_clean).sum() > 0
    if where != "bank":
        clean, clean_batches = draw(NoiseConfig(), 0)
        assert torch.equal(first.x, clean.x)
        assert torch.equal(first_batches.chosen, clean_batches.chosen)
    else:
        ours, other = (all_samples(noisy_bank(pixel_bank(), replace(noise, seed=seed), KNOWN)) for seed in (0, 1))
        assert not np.array_equal(ours.x, other.x)


def test_a_matrix_acts_only_among_the_classes_of_a_task(tmp_path: Path) -> None:
    """Class 0 is flipped to class 1 with probability 0.6, but only in tasks that contain both."""
    names = [f"class-{number:02d}" for number in range(26)]
    matrix = np.eye(26)
    matrix[0, :2] = 0.4, 0.6
    noise = NoiseConfig("matrix", where="task", file=write_csv(tmp_path, matrix_rows(matrix, names)))
    banks = add_noise(Banks(pixel_bank(), pixel_bank(20, 3), pixel_bank(23, 3)), noise, evaluation=False).banks
    flipped, with_both, others = 0, 0, 0
    for number in range(400):
        samples = banks.train.draw_tasks(1, TaskShape(5, 10, 0), [generator_at(0, "tasks", number)])
        classes = samples.classes[0, 0].tolist()
        true = samples.x[0, 0, :, 0, 0, 0]
        wrong = ~samples.is_clean[0, 0]
        if 0 in classes and 1 in classes:
            with_both += 10
            flipped += int(wrong[true == 0].sum())
            assert set(samples.y[0, 0][wrong].tolist()) <= {classes.index(1)}
        others += int(wrong[true != 0].sum())
    assert others == 0
    assert flipped / with_both == pytest.approx(0.6, abs=0.12)


def test_rotated_classes_are_flipped_like_unrotated_ones(tmp_path: Path) -> None:
    matrix = np.roll(np.eye(CLASSES), 1, axis=1)
    noise = NoiseConfig("matrix", 1.0, "task", file=write_csv(tmp_path, matrix_rows(matrix, NAMES)))
    flipper, y = LabelFlipper(noise, NAMES, KNOWN), np.array([[0, 1]])
    for classes in ([0, 1], [0, CLASSES + 1], [3 * CLASSES, 2 * CLASSES + 1]):
        assert flipper.noisy_labels(y, np.array([classes]), np.full((1, 2), 0.5)).tolist() == [[1, 1]]


def test_a_matrix_is_applied_with_the_rate_and_rescaled_to_the_task(tmp_path: Path) -> None:
    names = ["a", "b", "c"]
    rows: list[list[object]] = [["", *names], ["a", 0.2, 0.1, 0.7], ["b", 0, 1, 0], ["c", 0, 0, 1]]
    flipper = LabelFlipper(NoiseConfig("matrix", 0.5, "task", file=write_csv(tmp_path, rows)), names, set(names))
    y, uniform = np.zeros((1, 100_000), dtype=np.int64), np.random.default_rng(0).random((1, 100_000))
    noisy = flipper.noisy_labels(y, np.array([[0, 1]]), uniform)
    assert (noisy == 1).mean() == pytest.approx(0.5 * 0.1 / 0.3, abs=0.01)
    # A class that is in the task twice, in two rotations, is never flipped to its other rotation.
    assert (flipper.noisy_labels(y, np.array([[1, 1]]), uniform) == 0).all()


def test_epoch_batches_have_noisy_labels_too() -> None:
    bank = ImageBank(np.zeros((400, 2, 2, 1), dtype=np.uint8), NAMES[:8], [50] * 8)
    noisy = add_noise(Banks(bank, bank, bank), NoiseConfig("symmetric", 0.3, "task"), evaluation=False).banks.train
    assert isinstance(noisy, FiniteBank)
    found = all_samples(noisy)
    is_clean = found.y[0, 0] == np.repeat(np.arange(8), 50)
    assert np.array_equal(found.is_clean[0, 0], is_clean)
    assert 0.6 < is_clean.mean() < 0.8


def test_regression_has_no_label_noise() -> None:
    with pytest.raises(DataError, match=r"set `noise\.kind` to none"):
        add_noise(Sine().load(no_progress), NoiseConfig("symmetric", 0.5), evaluation=False)
