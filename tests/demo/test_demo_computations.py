"""What the page's worker computes, against independent answers."""

import asyncio
import json
import math

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from eigen_reptile.demo.curve import fit_curves, principal_plane, random_walk
from eigen_reptile.demo.drawing import (
    adapted_network,
    answer_drawings,
    features_of,
    learn_lesson,
    learnt_head,
    pixels_of,
)
from eigen_reptile.demo.model_files import open_lesson, save_lesson
from eigen_reptile.demo.protocol import Ask, Fit, Learn, Lesson, Open, Save
from eigen_reptile.demo.replies import Opened
from eigen_reptile.demo.shipped import FOLDER, embedding, start_of_drawing
from eigen_reptile.demo.worker import DIED, TOO_LONG, BusyError, Worker
from eigen_reptile.errors import RunError
from eigen_reptile.practice.classifier import FewShotClassifier
from hand_drawings import lesson, queries


def as_lesson(wrong: int = 0) -> Lesson:
    return Lesson.model_validate_json(json.dumps(lesson(wrong)))


def test_what_ships_is_small_and_measured() -> None:
    files = [file for file in FOLDER.iterdir() if file.name.endswith(".safetensors")]
    assert len(files) == 6
    assert sum(len(file.read_bytes()) for file in files) < 1_000_000
    rows = json.loads(FOLDER.joinpath("accuracy.json").read_text())["rows"]
    for row in rows:
        assert row["trust"]["percent"] >= row["reptile"]["percent"]


@pytest.mark.parametrize("way", [2, 5, 10])
def test_all_classes_begin_alike(way: int) -> None:
    """The first outputs are equal for every class, and the body is the same for every number of classes."""
    start, other = (start_of_drawing("eigen-reptile", number) for number in (way, 3))
    x = torch.rand(4, 1, 28, 28)
    output = start.network.output(start.initialisation.theta[0], x)
    assert output.shape == (4, way)
    torch.testing.assert_close(output, other.network.output(other.initialisation.theta[0], x)[:, :1].expand(-1, way))


def test_the_course_ends_where_the_answers_are() -> None:
    """The loss after the last step is that of the probabilities of the examples themselves, and it has decreased."""
    found = as_lesson()
    course = learn_lesson(Learn(lesson=found, methods=("reptile",)), lambda done: None).methods["reptile"]
    adapted = adapted_network(found, "reptile")
    labels = torch.tensor([example.label for example in found.examples])
    outputs = adapted.start.network.output(adapted.W[-1], adapted.tasks.x[0, 0])
    assert course.loss[-1] == pytest.approx(float(cross_entropy(outputs, labels)), abs=1e-5)
    assert course.loss[0] == pytest.approx(math.log(2), abs=1e-5)
    assert course.loss[-1] < 0.2
    assert (len(course.loss), course.accuracy[-1]) == (51, 1.0)


def test_a_drawing_is_answered_the_same_in_any_company() -> None:
    found, drawings = as_lesson(), tuple(queries(2))
    for method in ("eigen-reptile-ispl", "trust"):
        ask = Ask(lesson=found, methods=(method,), steps=20, drawings=drawings)
        alone = [answer_drawings(ask.model_copy(update={"drawings": (one,)})).methods[method][0] for one in drawings]
        np.testing.assert_allclose(answer_drawings(ask).methods[method], alone, atol=1e-5)


def test_a_wrong_label_is_found() -> None:
    learnt = learn_lesson(Learn(lesson=as_lesson(wrong=1), methods=("trust",)), lambda done: None)
    assert np.argmin(np.array(learnt.trust, dtype=float)) == 0
    assert learnt.trust[0] is not None
    assert learnt.trust[0] < 0.5
    assert learnt.suggested == [0, 0, 0, 1, 1, 1]


def test_a_saved_model_answers_and_opens_as_the_page_does() -> None:
    found = as_lesson()
    saved = save_lesson(Save(lesson=found, form="model"))
    opened = open_lesson(Open(file=saved.data))
    assert opened == Opened(classes=["circle", "cross"], examples=list(found.examples))
    drawings = pixels_of(tuple(queries()))
    classifier = FewShotClassifier(embedding()).fit_features(
        features_of(pixels_of(tuple(one.drawing for one in found.examples))),
        [found.classes[one.label] for one in found.examples],
    )
    expected = classifier.predict_proba(list(255 - drawings))
    np.testing.assert_allclose(learnt_head(found, "trust").probabilities(features_of(drawings)), expected, atol=1e-6)


def test_a_damaged_model_is_refused() -> None:
    saved = save_lesson(Save(lesson=as_lesson(), form="model")).data
    with pytest.raises(RunError):
        open_lesson(Open(file=saved[: len(saved) // 8 * 4]))


def test_the_plane_holds_the_largest_singular_vectors() -> None:
    W = torch.randn(33, 200, generator=torch.Generator().manual_seed(0)).cumsum(0)
    plane = principal_plane(W)
    centred = (W - W.mean(0)).double().numpy()
    U, values, _ = np.linalg.svd(centred, full_matrices=False)
    np.testing.assert_allclose(np.abs(plane.path.numpy()), np.abs(U[:, :2] * values[:2]), atol=1e-8)
    shares = values**2 / (values**2).sum()
    assert (plane.spectrum.first, plane.spectrum.second) == pytest.approx(tuple(shares[:2]))
    assert plane.path[-1, 0] >= plane.path[0, 0]


def test_a_random_walk_in_many_dimensions_has_the_known_share() -> None:
    """Of a long walk, 6 / pi^2 lies along the main direction (Antognini and Sohl-Dickstein 2018)."""
    assert principal_plane(random_walk(200, 20_000)).spectrum.first == pytest.approx(6 / math.pi**2, abs=0.02)


def test_a_sine_wave_is_fitted() -> None:
    points = tuple((x, 2 * math.sin(x + 1)) for x in np.linspace(-4.5, 4.5, 10).tolist())
    for fitted in fit_curves(Fit(points=points)).methods.values():
        assert fitted.errors[-1] < 0.2 < fitted.errors[0]
        assert len(fitted.curves) == len(fitted.path) == 33


def test_a_worker_that_takes_too_long_is_replaced() -> None:
    async def try_out() -> None:
        worker = Worker(waiting=1, seconds=60.0)
        hasty = Worker(waiting=1, seconds=0.0)
        task = Fit(points=((0.0, 1.0), (1.0, 0.0))).model_dump_json().encode()
        running = [asyncio.create_task(one.run()) for one in (worker, hasty)]
        assert await hasty.submit(task).answer() == TOO_LONG
        jobs = [worker.submit(task)]
        with pytest.raises(BusyError):
            worker.submit(task)
        assert (await jobs[0].answer()).kind == "curves"
        worker._process.kill()  # type: ignore[union-attr]
        assert await worker.submit(task).answer() == DIED
        assert (await worker.submit(task).answer()).kind == "curves"
        for one in running:
            one.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    asyncio.run(try_out())
