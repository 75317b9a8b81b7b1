"""What the methods of the page learn from drawings, and what they say about others."""

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor

from eigen_reptile.demo.protocol import MOST_STEPS, SIDE, Ask, Learn, Lesson, Method, decoded
from eigen_reptile.demo.replies import Answers, Learnt, MethodLearnt
from eigen_reptile.demo.shipped import Start, embedding, start_of_drawing
from eigen_reptile.inner import trajectory
from eigen_reptile.practice.heads import Head, MeanPrototypes, Trust
from eigen_reptile.practice.learnt import Learnt as LearntHead, learn
from eigen_reptile.runtime.rng import generator_at
from eigen_reptile.tasks import Tasks, draw_batches
from eigen_reptile.training.query_batches import predict_inductively

REMEMBERED = 24
"""Lessons times methods that a worker need not learn again: 80 MB of trajectories."""
SEED = 0
HEADS: dict[Method, Head] = {"prototypes": MeanPrototypes(), "trust": Trust()}
"""Methods that learn from features, without steps."""
WHITE = 255

Report = Callable[[float], None]
"""Called with the fraction that is done."""


class Adapted(NamedTuple):
    """A network on its way from the initialisation to the examples."""

    start: Start
    tasks: Tasks
    W: Float[Tensor, "rows d"]


def learn_lesson(request: Learn, report: Report) -> Learnt:
    """All methods, one after the other, and the trust in each label."""
    found: dict[str, MethodLearnt] = {}
    for number, method in enumerate(request.methods, 1):
        found[method] = _course(request.lesson, method)
        report(number / len(request.methods))
    return judgement(found, learnt_head(request.lesson, "trust"))


def judgement(methods: dict[str, MethodLearnt], judged: LearntHead) -> Learnt:
    """What the methods have learnt, and the trust in each label."""
    trust = [None if np.isnan(value) else float(value) for value in judged.trust]
    return Learnt(methods=methods, trust=trust, suggested=judged.suggested.tolist())


def answer_drawings(request: Ask) -> Answers:
    drawings = pixels_of(request.drawings)
    answers = {method: _probabilities(request.lesson, method, request.steps, drawings) for method in request.methods}
    return Answers(methods={method: found.tolist() for method, found in answers.items()})


def pixels_of(drawings: tuple[str, ...]) -> UInt8[np.ndarray, "N side side"]:
    return np.stack([np.frombuffer(decoded(one), dtype=np.uint8).reshape(SIDE, SIDE) for one in drawings])


def on_paper(drawings: UInt8[np.ndarray, "N side side"]) -> UInt8[np.ndarray, "N side side 1"]:
    """Dark ink on white, as model files take it, because that is what people draw and photograph."""
    paper: np.ndarray = WHITE - drawings[..., None]
    return paper


def features_of(drawings: UInt8[np.ndarray, "N side side"]) -> Float[np.ndarray, "N F"]:
    return embedding().features(on_paper(drawings))


@lru_cache(REMEMBERED)
def learnt_head(lesson: Lesson, method: Method) -> LearntHead:
    features = features_of(pixels_of(tuple(example.drawing for example in lesson.examples)))
    return learn(HEADS[method], features, _labels(lesson), len(lesson.classes), rejects=False)


@lru_cache(REMEMBERED)
def adapted_network(lesson: Lesson, method: Method) -> Adapted:
    """The network after each step of the inner loop, in mini-batches as in the evaluation of its training."""
    start, tasks = start_of_drawing(method, len(lesson.classes)), _as_task(lesson)
    network, initialisation = start.network, start.initialisation
    m = len(lesson.examples)
    size = min(start.exp.evaluation.batch or m, m)
    batches = draw_batches(tasks, MOST_STEPS, size, [generator_at(SEED, "batches")])
    theta = initialisation.theta[:, None]
    state = initialisation.inner_state.carried(initialisation.inner).for_tasks(1)
    with torch.no_grad():
        W, _ = trajectory(network.gradient, theta, state, tasks.x, batches, initialisation.inner)
    return Adapted(start, tasks, W[0, 0])


def _as_task(lesson: Lesson) -> Tasks:
    pixels = torch.tensor(pixels_of(tuple(example.drawing for example in lesson.examples)))
    x = (pixels.float() / WHITE)[None, None, :, None]
    y = torch.tensor(_labels(lesson))[None, None]
    classes = torch.arange(len(lesson.classes))[None, None]
    return Tasks(x, y, x[:, :, :0], y[:, :, :0], torch.ones_like(y, dtype=torch.bool), classes)


def _labels(lesson: Lesson) -> Int[np.ndarray, "m"]:
    return np.array(lesson.labels, dtype=np.int64)


def _course(lesson: Lesson, method: Method) -> MethodLearnt:
    """Loss and accuracy on the examples with their given labels, after each step."""
    labels = torch.tensor(_labels(lesson))
    if method in HEADS:
        found = learnt_head(lesson, method)
        probabilities = torch.tensor(found.probabilities(found.features))
        loss, accuracy = _score(probabilities.log()[None], labels)
        return MethodLearnt(loss=loss, accuracy=accuracy)
    start, tasks, W = adapted_network(lesson, method)
    outputs = torch.stack([start.network.output(theta, tasks.x[0, 0]) for theta in W])
    loss, accuracy = _score(outputs.log_softmax(-1), labels)
    return MethodLearnt(loss=loss, accuracy=accuracy)


def _score(log_probabilities: Float[Tensor, "n m way"], labels: Int[Tensor, "m"]) -> tuple[list[float], list[float]]:
    """The mean loss and the accuracy after each step."""
    given = labels.expand(len(log_probabilities), -1)
    loss = -log_probabilities.gather(2, given[..., None]).mean((1, 2))
    return loss.tolist(), (log_probabilities.argmax(-1) == given).double().mean(1).tolist()


def _probabilities(
    lesson: Lesson, method: Method, steps: int, drawings: UInt8[np.ndarray, "q side side"]
) -> Float[np.ndarray, "q way"]:
    """Of each class, for drawings that share a batch with the examples only, so that none influences another."""
    if method in HEADS:
        return learnt_head(lesson, method).probabilities(features_of(drawings))
    start, tasks, W = adapted_network(lesson, method)
    queries = (torch.tensor(drawings).float() / WHITE)[None, None, :, None]
    with torch.no_grad():
        outputs = predict_inductively(
            start.network, start.initialisation.method, W[None, None, steps], tasks._replace(query_x=queries)
        )
    probabilities: np.ndarray = outputs[0, 0].double().softmax(-1).numpy()
    return probabilities
