"""Wrong labels: how many, which, and that nothing else changes."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from eigen_reptile.config import Experiment, standard
from eigen_reptile.data import Banks, DataError, Dataset, ImageBank, Sine, TaskShape
from eigen_reptile.evaluate import EvalConfig
from eigen_reptile.methods import METHODS
from eigen_reptile.models import Conv4
from eigen_reptile.noise import (
    Flips,
    NoiseConfig,
    class_table,
    flipped,
    given_labels,
    noisy_bank,
    task_table,
    with_noise,
)
from eigen_reptile.progress import Announce, silent
from eigen_reptile.stage import Stage, prepare
from eigen_reptile.streams import stream
from eigen_reptile.tasks import Batches, Tasks
from eigen_reptile.train import training_data

CLASSES, EACH = 20, 50
NAMES = [f"class-{number:02d}" for number in range(CLASSES)]
KNOWN = set(NAMES)


def bank(first: int = 0, classes: int = CLASSES, each: int = EACH) -> ImageBank:
    """Pictures of one pixel that says which class they truly are."""
    pixels = np.repeat(np.arange(first, first + classes, dtype=np.uint8), each)[:, None, None, None]
    return ImageBank(pixels, [f"class-{number:02d}" for number in range(first, first + classes)], [each] * classes)


class Pixels(Dataset):
    @property
    def classifies(self) -> bool:
        return True

    def load(self, announce: Announce) -> Banks:
        return Banks(bank(), bank(20, 6), bank(30, 6))


def stage_with(noise: NoiseConfig, noisy_evaluation: bool = False, steps: int = 7) -> Stage:
    exp = standard(Pixels(), METHODS["reptile"])
    exp = replace(
        exp,
        noise=noise,
        task=replace(exp.task, shots=30),
        inner=replace(exp.inner, steps=steps),
        evaluation=replace(exp.evaluation, noisy=noisy_evaluation),
    )
    return prepare(exp, silent, "cpu")


def drawn(noise: NoiseConfig, count: int = 100, steps: int = 7) -> list[tuple[Tasks, Batches]]:
    stage = stage_with(noise, steps=steps)
    return [training_data(stage, step) for step in range(count)]


def transitions(pairs: list[tuple[np.ndarray, np.ndarray]], classes: int) -> np.ndarray:
    counts = np.zeros((classes, classes))
    for true, told in pairs:
        np.add.at(counts, (true.ravel(), told.ravel()), 1)
    rates: np.ndarray = counts / counts.sum(1, keepdims=True)
    return rates


def told_in_tasks(noise: NoiseConfig) -> tuple[np.ndarray, float]:
    """How often each class of a task is told as each, and the share of wrong labels, over 75,000 of them."""
    pairs, right = [], []
    for tasks, _ in drawn(noise):
        pixel = tasks.x[..., 0, 0, 0]
        true = (pixel[..., None] == tasks.classes[:, :, None]).int().argmax(-1)
        pairs.append((true.numpy(), tasks.y.numpy()))
        assert torch.equal(tasks.right, true == tasks.y)
        right.append(tasks.right.double().mean().item())
    return transitions(pairs, 5), 1 - float(np.mean(right))


@pytest.mark.parametrize("rate", [0.0, 0.2, 0.5, 1.0])
@pytest.mark.parametrize("kind", ["symmetric", "asymmetric"])
def test_rates_inside_tasks(kind: str, rate: float) -> None:
    found, wrong = told_in_tasks(NoiseConfig(kind, rate, "task"))  # type: ignore[arg-type]
    expected = (1 - rate) * np.eye(5)
    for true in range(5):
        if kind == "symmetric":
            expected[true, [other for other in range(5) if other != true]] = rate / 4
        else:
            expected[true, (true + 1) % 5] = rate
    np.testing.assert_allclose(found, expected, atol=0.015)
    assert wrong == pytest.approx(rate, abs=0.01)


@pytest.mark.parametrize("kind", ["symmetric", "asymmetric"])
def test_rates_of_draws(kind: str) -> None:
    """A picture that is drawn more than once is told right at one time and wrong at another."""
    right, differs = [], []
    for tasks, batches in drawn(NoiseConfig(kind, 0.4, "draw"), count=30, steps=30):  # type: ignore[arg-type]
        assert tasks.right.all()
        true = tasks.y.gather(2, batches.chosen.flatten(2)).view_as(batches.y)
        assert torch.equal(batches.right, true == batches.y)
        right.append(batches.right.double().mean().item())
        for chosen, told in zip(batches.chosen[0].flatten(1), batches.y[0].flatten(1), strict=True):
            first, second = chosen[:150].argsort(), 150 + chosen[150:300].argsort()
            differs.append((told[first] != told[second]).double().mean().item())
    assert 1 - np.mean(right) == pytest.approx(0.4, abs=0.01)
    assert 0.3 < float(np.mean(differs)) < 0.8


def given_and_true(noise: NoiseConfig, each: int = 5000) -> tuple[np.ndarray, np.ndarray, ImageBank]:
    clean = bank(each=each)
    noisy = noisy_bank(clean, noise, KNOWN)
    return clean.pixels[noisy._rows, 0, 0, 0], noisy.labels, noisy


@pytest.mark.parametrize("rate", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("kind", ["symmetric", "asymmetric", "chain"])
def test_rates_in_the_bank(kind: str, rate: float) -> None:
    noise = NoiseConfig("symmetric" if kind == "symmetric" else "asymmetric", rate, "bank")
    noise = replace(noise, last="chain") if kind == "chain" else noise
    true, given, noisy = given_and_true(noise)
    expected = (1 - rate) * np.eye(CLASSES)
    for number in range(CLASSES):
        if kind == "symmetric":
            expected[number, [other for other in range(CLASSES) if other != number]] = rate / (CLASSES - 1)
        else:
            expected[number, (number + 1) % CLASSES] = rate
    if kind == "chain":
        expected[-1] = np.eye(CLASSES)[-1]
    np.testing.assert_allclose(transitions([(true, given)], CLASSES), expected, atol=0.03)
    assert np.array_equal(noisy._right, true == given)
    assert int(noisy.sizes.sum()) == CLASSES * 5000


def test_tasks_of_a_noisy_bank_know_what_is_wrong() -> None:
    stage = stage_with(NoiseConfig("asymmetric", 0.5, "bank"))
    for step in range(20):
        tasks, batches = training_data(stage, step)
        believed = tasks.classes.gather(2, tasks.y)
        assert torch.equal(tasks.right, tasks.x[..., 0, 0, 0] == believed)
        assert torch.equal(batches.right, tasks.right.gather(2, batches.chosen.flatten(2)).view_as(batches.right))
    assert 0.3 < tasks.right.double().mean() < 0.7


def test_evaluation_is_clean_unless_asked() -> None:
    rng = [stream(0, "test", number) for number in range(50)]
    shape = TaskShape(5, 5, 3)
    noise = NoiseConfig("symmetric", 0.5, "task")
    clean, noisy = (stage_with(noise, asked).banks.test.draw(1, shape, rng) for asked in (False, True))
    assert clean.right.all()
    assert 0.4 < 1 - noisy.right.mean() < 0.6
    assert np.array_equal(noisy.query_y, clean.query_y)
    with pytest.raises(DataError, match="where task"):
        stage_with(NoiseConfig("symmetric", 0.5, "bank"), noisy_evaluation=True)


@pytest.mark.parametrize("where", ["bank", "task", "draw"])
def test_same_seed_same_flips_and_the_same_pictures_as_without(where: str) -> None:
    noise = NoiseConfig("symmetric", 0.5, where)  # type: ignore[arg-type]
    (first, first_batches), (second, second_batches) = drawn(noise, 1)[0], drawn(noise, 1)[0]
    assert all(torch.equal(one, other) for one, other in zip(first, second, strict=True))
    assert all(torch.equal(one, other) for one, other in zip(first_batches, second_batches, strict=True))
    assert (~first_batches.right).sum() > 0
    if where != "bank":
        clean, clean_batches = drawn(NoiseConfig(), 1)[0]
        assert torch.equal(first.x, clean.x)
        assert torch.equal(first_batches.chosen, clean_batches.chosen)
    else:
        other = replace(noise, seed=1)
        assert not np.array_equal(noisy_bank(bank(), noise, KNOWN)._rows, noisy_bank(bank(), other, KNOWN)._rows)


def write(folder: Path, lines: Sequence[Sequence[object]]) -> Path:
    file = folder / "table.csv"
    file.write_text("\n".join(",".join(map(str, line)) for line in lines) + "\n")
    return file


def table_of(values: np.ndarray, names: list[str]) -> Sequence[Sequence[object]]:
    return [["true", *names], *([name, *row] for name, row in zip(names, values.tolist(), strict=True))]


def confusion() -> np.ndarray:
    """A table of 26 classes, of which the last 6 are no training classes."""
    weights = np.random.default_rng(0).random((26, 26)) + 10 * np.eye(26)
    table: np.ndarray = weights / weights.sum(1, keepdims=True)
    return table


@pytest.mark.parametrize("counts", [False, True])
def test_a_table_acts_on_the_bank(tmp_path: Path, counts: bool) -> None:
    names = [f"class-{number:02d}" for number in range(26)]
    table = confusion()
    file = write(tmp_path, table_of((1e6 * table).round().astype(int) if counts else table, names))
    clean = bank(each=5000)
    noisy = noisy_bank(clean, NoiseConfig("matrix", where="bank", file=file), set(names))
    found = transitions([(clean.pixels[noisy._rows, 0, 0, 0], noisy.labels)], CLASSES)
    inside = table[:CLASSES, :CLASSES] / table[:CLASSES, :CLASSES].sum(1, keepdims=True)
    np.testing.assert_allclose(found, inside, atol=0.03)
    half = class_table(NoiseConfig("matrix", 0.5, "bank", file=file), NAMES, set(names))
    np.testing.assert_allclose(half, (np.eye(CLASSES) + inside) / 2, atol=1e-6)


def test_a_table_acts_inside_tasks(tmp_path: Path) -> None:
    """Of each class's row only what lies inside the task counts."""
    names = [f"class-{number:02d}" for number in range(26)]
    table = np.eye(26)
    table[0, :2] = 0.4, 0.6
    stage_noise = NoiseConfig("matrix", where="task", file=write(tmp_path, table_of(table, names)))
    banks = with_noise(Banks(bank(), bank(20, 3), bank(23, 3)), stage_noise, evaluation=False).banks
    told_wrong, with_both, others = 0, 0, 0
    for number in range(400):
        samples = banks.train.draw(1, TaskShape(5, 10, 0), [stream(0, "tasks", number)])
        classes = samples.classes[0, 0].tolist()
        true = samples.x[0, 0, :, 0, 0, 0]
        wrong = ~samples.right[0, 0]
        if 0 in classes and 1 in classes:
            with_both += 10
            told_wrong += int(wrong[true == 0].sum())
            assert set(samples.y[0, 0][wrong].tolist()) <= {classes.index(1)}
        others += int(wrong[true != 0].sum())
    assert others == 0
    assert told_wrong / with_both == pytest.approx(0.6, abs=0.12)


def test_turned_classes_are_confused_as_upright_ones(tmp_path: Path) -> None:
    table = np.roll(np.eye(CLASSES), 1, axis=1)
    noise = NoiseConfig("matrix", 1.0, "task", file=write(tmp_path, table_of(table, NAMES)))
    flips, y = Flips(noise, NAMES, set(NAMES)), np.array([[0, 1]])
    for classes in ([0, 1], [0, CLASSES + 1], [3 * CLASSES, 2 * CLASSES + 1]):
        assert flips.told(y, np.array([classes]), np.full((1, 2), 0.5)).tolist() == [[1, 1]]


def test_given_labels(tmp_path: Path) -> None:
    names = ["class-00", "class-01", "class-02", "class-30"]
    lines = [["class", "label"]]
    lines += [["class-00", "class-00"], ["class-00", "class-01"], ["class-00", "class-30"]]
    lines += [["class-30", "class-00"], *[["class-01", "class-01"]] * 3, *[["class-02", "class-00"]] * 3]
    small = bank(classes=3, each=3)
    noisy = noisy_bank(small, NoiseConfig("labels", where="bank", file=write(tmp_path, lines)), set(names))
    assert noisy.sizes.tolist() == [4, 4, 0]
    assert noisy._rows.tolist() == [0, 6, 7, 8, 1, 3, 4, 5]  # the third picture went to a class that is not trained on
    assert noisy._right.tolist() == [True, False, False, False, False, True, True, True]

    def refused(lines: Sequence[Sequence[object]], problem: str) -> None:
        with pytest.raises(DataError, match=problem):
            noisy_bank(small, NoiseConfig("labels", where="bank", file=write(tmp_path, lines)), set(names))

    refused(lines[:-1], "2 labels for the 3 pictures of class-02")
    refused([*lines, ["class-02", "class-77"]], "picture 11: the data set has no class named 'class-77'")
    refused([*lines, ["class-02"]], "line 12: 1 values in 2 columns")
    refused([["class", "told"], *lines[1:]], "one column named label")


def test_given_labels_in_arrays(tmp_path: Path) -> None:
    """As CIFAR-10N has them: several annotators side by side, classes by their numbers."""
    small = bank(classes=3, each=3)
    small.names = ("0", "1", "2")
    true = np.repeat(np.arange(3, dtype=np.uint8), 3)
    file = tmp_path / "labels.npz"

    def told(column: str = "worse_label", **arrays: np.ndarray) -> object:
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]
        noise = NoiseConfig("labels", where="bank", file=file, column=column)
        return given_labels(small, noise, {"0", "1", "2", "3"}).tolist()

    worse = np.array([0, 1, 3, 1, 1, 1, 0, 2, 2])
    assert told(clean_label=true, aggre_label=true, worse_label=worse) == [0, 1, -1, 1, 1, 1, 0, 2, 2]
    assert told(clean_label=true, aggre_label=true, worse_label=worse, column="aggre_label") == true.tolist()
    with pytest.raises(DataError, match="no array other, but clean_label, worse_label: say which"):
        told(clean_label=true, worse_label=worse, column="other")
    with pytest.raises(DataError, match="Object arrays"):
        told(clean_label=true, worse_label=np.array([{}] * 9))
    with pytest.raises(DataError, match="whole numbers"):
        told(clean_label=true, worse_label=worse / 2)
    with pytest.raises(DataError, match="8 labels in worse_label for 9 pictures"):
        told(clean_label=true, worse_label=worse[:-1])
    with pytest.raises(DataError, match="no class named '7'"):
        told(clean_label=true, worse_label=np.full(9, 7))
    file.write_bytes(b"PK nothing")
    with pytest.raises(DataError, match="not a whole zip"):
        given_labels(small, NoiseConfig("labels", where="bank", file=file), set(small.names))


@pytest.mark.parametrize(("column", "wrong"), [("aggre_label", 0.09), ("worse_label", 0.40)])
def test_the_labels_of_cifar_10n(column: str, wrong: float, shared: Path) -> None:
    """Their published rates are 9.03 and 40.21 %."""
    file = shared / "cifar10n" / "labels.npz"
    pictures = bank(classes=10, each=600)
    pictures.names = tuple(map(str, range(10)))
    given = given_labels(pictures, NoiseConfig("labels", where="bank", file=file, column=column), set(pictures.names))
    assert (given != pictures.labels).mean() == pytest.approx(wrong, abs=0.02)  # 6,000 of the 50,000 pictures


BAD_TABLES: dict[str, Sequence[Sequence[object]]] = {
    "add up to 0.9": [["", "class-00", "class-01"], ["class-00", 0.5, 0.4], ["class-01", 0, 1]],
    "add up to 2": [["", "class-00", "class-01"], ["class-00", 1, 1], ["class-01", 0, 1]],
    "two columns of one name": [["", "class-00", "class-00"], ["class-00", 1, 0]],
    "no class named 'class-98'": [["", "class-00"], ["class-00", 1], ["class-98", 1]],
    "no column for 19": [["", "class-00"], *[[name, 1] for name in NAMES]],
    "no class named 'class-99'": [["", "class-00", "class-99"], ["class-00", 0.5, 0.5]],
    "not negative": [["", "class-00", "class-01"], ["class-00", 1.5, -0.5], ["class-01", 0, 1]],
    "no row for 19": [["", "class-00"], ["class-00", 1]],
    "values for 2 classes": [["", "class-00", "class-01"], ["class-00", 1]],
    "second row": [["", "class-00"], ["class-00", 1], ["class-00", 1]],
    "could not convert": [["", "class-00"], ["class-00", "many"]],
    "is empty": [["", "class-00"]],
}


@pytest.mark.parametrize("problem", BAD_TABLES)
def test_tables_that_are_none_are_refused(problem: str, tmp_path: Path) -> None:
    noise = NoiseConfig("matrix", where="bank", file=write(tmp_path, BAD_TABLES[problem]))
    with pytest.raises(DataError, match=problem):
        class_table(noise, NAMES, KNOWN)


def test_what_goes_to_other_splits_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    rows: list[list[object]] = [[" ", "a", " b", "c "], [" a", 0.3334, 0.3333, 0.3333], ["b", 0, 1, 0]]
    noise = NoiseConfig("matrix", where="bank", file=write(tmp_path, rows))
    np.testing.assert_allclose(class_table(noise, ["a", "b"], {"a", "b", "c"}), [[0.5, 0.5], [0.0, 1.0]], atol=1e-3)
    assert f"16.7 % of what {noise.file} says of these classes goes to classes of other splits" in caplog.text
    lines = [["class", "label"], ["class-00", "class-01"], ["class-01", "elsewhere"]]
    labels = NoiseConfig("labels", where="bank", file=write(tmp_path, lines))
    given_labels(bank(classes=2, each=1), labels, {*NAMES, "elsewhere"})
    assert "1 of 2 pictures are given classes of other splits" in caplog.text


def test_a_class_that_goes_nowhere_is_refused(tmp_path: Path) -> None:
    rows: list[list[object]] = [["", "a", "b", "c"], ["a", 0, 0, 1], ["b", 0, 1, 0]]
    with pytest.raises(DataError, match="sends all of a to classes that are not trained on"):
        class_table(NoiseConfig("matrix", where="bank", file=write(tmp_path, rows)), ["a", "b"], {"a", "b", "c"})


def test_what_cannot_be_is_refused(tmp_path: Path) -> None:
    for rate in (-0.1, 1.1, float("nan")):
        with pytest.raises(ValueError, match="from 0 to 1"):
            NoiseConfig("symmetric", rate)
    with pytest.raises(ValueError, match=r"--noise\.rate"):
        NoiseConfig("symmetric")
    with pytest.raises(ValueError, match=r"--noise\.file"):
        NoiseConfig("matrix")
    with pytest.raises(ValueError, match="follows a rule, not a file"):
        NoiseConfig("symmetric", 0.5, file=tmp_path)
    with pytest.raises(ValueError, match="where bank"):
        NoiseConfig("labels", where="task", file=tmp_path)
    with pytest.raises(ValueError, match="which noise is meant"):
        NoiseConfig(rate=0.5)
    with pytest.raises(ValueError, match="no noise to evaluate with"):
        Experiment(evaluation=EvalConfig(noisy=True))
    with pytest.raises(DataError, match="there is no"):
        class_table(NoiseConfig("matrix", file=tmp_path / "missing.csv"), NAMES, KNOWN)
    with pytest.raises(DataError, match="no labels"):
        prepare(replace(Experiment(data=Sine()), noise=NoiseConfig("symmetric", 0.5)), silent, "cpu")


def test_a_table_in_a_task_is_followed_with_the_rate_among_the_classes_of_the_task(tmp_path: Path) -> None:
    names = ["a", "b", "c"]
    rows: list[list[object]] = [["", *names], ["a", 0.2, 0.1, 0.7], ["b", 0, 1, 0], ["c", 0, 0, 1]]
    flips = Flips(NoiseConfig("matrix", 0.5, "task", file=write(tmp_path, rows)), names, set(names))
    y, uniform = np.zeros((1, 100_000), dtype=np.int64), np.random.default_rng(0).random((1, 100_000))
    told = flips.told(y, np.array([[0, 1]]), uniform)
    assert (told == 1).mean() == pytest.approx(0.5 * 0.1 / 0.3, abs=0.01)
    # A class that is there twice, turned, is never told as its twin.
    assert (flips.told(y, np.array([[1, 1]]), uniform) == 0).all()


def test_an_excel_csv_is_read(tmp_path: Path) -> None:
    file = tmp_path / "table.csv"
    file.write_text("\ufeffclass,label\nclass-00,class-01\nclass-01,class-01\n", encoding="utf-8")
    noise = NoiseConfig("labels", where="bank", file=file)
    assert given_labels(bank(classes=2, each=1), noise, set(NAMES)).tolist() == [1, 1]


@settings(max_examples=50, deadline=None)
@given(
    st.integers(2, 8),
    st.floats(0, 1, allow_subnormal=False),
    st.sampled_from(["symmetric", "asymmetric"]),
    st.integers(0, 2**32),
)
def test_tables_are_stochastic_and_flips_stay_inside(classes: int, rate: float, kind: str, seed: int) -> None:
    table = task_table(NoiseConfig(kind, rate), classes)  # type: ignore[arg-type]
    np.testing.assert_allclose(table.sum(1), 1)
    np.testing.assert_allclose(table.diagonal(), 1 - rate)
    rng = np.random.default_rng(seed)
    y = rng.integers(classes, size=(3, 40))
    told = flipped(y, np.broadcast_to(table, (3, classes, classes)), rng.random(y.shape))
    assert told.min() >= 0
    assert told.max() < classes


def test_batches_of_the_whole_set_are_told_wrong_too() -> None:
    pixels = np.zeros((400, 2, 2, 1), dtype=np.uint8)
    banks = Banks(*[ImageBank(pixels, [f"class {number}" for number in range(8)], [50] * 8)] * 3)
    bank = with_noise(banks, NoiseConfig("symmetric", 0.3, "task"), False).banks.train
    found = bank.take(np.arange(400).reshape(1, 1, -1), [np.random.default_rng(0)])
    right = found.y[0, 0] == np.repeat(np.arange(8), 50)
    assert np.array_equal(found.right[0, 0], right)
    assert 0.6 < right.mean() < 0.8


@pytest.mark.parametrize("where", ["draw", "task"])
def test_training_on_the_whole_set_is_told_wrong_labels_too(where: str) -> None:
    exp = standard(Pixels(), METHODS["mixtfsl"])
    noise = NoiseConfig("symmetric", 0.3, where)  # type: ignore[arg-type]
    stage = prepare(replace(exp, noise=noise, model=Conv4(4, head=False)), silent, "cpu")
    share = []
    for step in range(5):
        tasks, _ = training_data(stage, step)
        true = tasks.x[..., 0, 0, 0]  # the pixel
        assert torch.equal(tasks.right, tasks.classes.gather(2, tasks.y) == true)
        share.append(float(tasks.right.double().mean()))
    assert 0.64 < np.mean(share) < 0.76
