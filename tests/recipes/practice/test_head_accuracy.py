"""The study of heads under noise: its tasks are those of an evaluation, its scores those of a plain loop."""

import numpy as np
import pytest
import torch

from eigen_reptile.data import TaskShape
from eigen_reptile.data.sampling import sample_tasks
from eigen_reptile.noise import support_labels
from eigen_reptile.practice.heads import HEADS, MeanPrototypes, Support
from eigen_reptile.recipes.practice import head_accuracy as module
from eigen_reptile.recipes.practice.head_accuracy import ClassFeatures, head_accuracy
from eigen_reptile.recipes.study import Study
from eigen_reptile.runtime.progress import no_progress
from eigen_reptile.runtime.rng import generator_at
from pixel_bank import pixel_bank

CLASSES, EACH = 8, 40
TASKS = 3


@pytest.fixture(scope="module")
def features() -> ClassFeatures:
    """Samples around the centre of their class; the first feature is the class, far too small to matter."""
    rng = np.random.default_rng(0)
    true = np.repeat(np.arange(CLASSES), EACH)
    x = rng.normal(size=(CLASSES, 12))[true] + 0.9 * rng.normal(size=(len(true), 12))
    return ClassFeatures(x.astype(np.float32), (EACH,) * CLASSES)


def test_tasks_are_those_of_a_bank_of_images(features: ClassFeatures) -> None:
    """The only pixel of an image is its class."""
    shape = TaskShape(5, 5, 2)
    ours, images = (
        sample_tasks(bank, shape, 1, [generator_at(0, "test", number) for number in range(3)])
        for bank in (features.bank, pixel_bank(classes=CLASSES, each=EACH))
    )
    assert ours.classes.equal(images.classes)
    numbered = ClassFeatures(np.arange(len(features.x), dtype=np.float32)[:, None], features.sizes)
    drawn = numbered.at(ours.query_x)[..., 0]
    assert (drawn // EACH).equal(images.query_x.flatten(2)[:, 0].float())


def test_scores_are_those_of_a_plain_loop(features: ClassFeatures, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "AT_ONCE", 2)
    study = head_accuracy({"clusters": features}, no_progress, "validation", TASKS, {"mean": MeanPrototypes()})
    panel = next(panel for panel in study.panels if panel.title == "clusters: symmetric noise, 5-shot")
    (line,) = panel.lines
    numbers = ClassFeatures(np.arange(len(features.x), dtype=np.float32)[:, None], features.sizes)
    accuracies = []
    for number in range(TASKS):
        tasks = sample_tasks(features.bank, TaskShape(5, 5, 15), 1, [generator_at(0, "validation", number)])
        given = support_labels("symmetric", 0.4, 5, 5, generator_at(0, "support", number))
        x, queries = (
            torch.from_numpy(features.x[numbers.at(part)[0, :, 0].long().numpy()])[None]
            for part in (tasks.x, tasks.query_x)
        )
        logits = MeanPrototypes().fit(Support(x, torch.from_numpy(given.ravel())[None], 5)).logits(queries)
        accuracies.append(float((logits.argmax(-1) == tasks.query_y[0]).double().mean()))
    assert line.x == [0.0, 0.2, 0.4, 0.6]
    assert line.y[2] == pytest.approx(100 * np.mean(accuracies), rel=1e-5)


def test_every_head_and_noise_is_there_and_survives_json(features: ClassFeatures) -> None:
    study = head_accuracy({"clusters": features}, no_progress, tasks=TASKS)
    assert Study.from_json(study.to_json()) == study
    titles = [panel.title for panel in study.panels]
    for kind, rates in module.RATES.items():
        for shots in module.SHOTS:
            panel = study.panels[titles.index(f"clusters: {kind} noise, {shots}-shot")]
            assert [line.name for line in panel.lines] == list(HEADS)
            assert all(line.x == list(rates) for line in panel.lines)
        found = study.panels[titles.index(f"clusters: wrong labels found by trust, {kind} noise")]
        assert all(0.5 < value <= 1 for line in found.lines for value in line.y[:1])
