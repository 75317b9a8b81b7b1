"""What heads learn from photographs, by the features of a pretrained backbone."""

import base64
import tempfile
from functools import lru_cache
from pathlib import Path

import numpy as np
from jaxtyping import Float

from eigen_reptile.demo.drawing import judgement
from eigen_reptile.demo.picture_protocol import (
    PICTURE_SIDE,
    AskPictures,
    HeadName,
    JudgePictures,
    PictureLesson,
    SavePictures,
    See,
)
from eigen_reptile.demo.protocol import decoded
from eigen_reptile.demo.replies import Answers, File, Learnt, Seen
from eigen_reptile.practice.backbones import EfficientNetLite0
from eigen_reptile.practice.heads import HEADS
from eigen_reptile.practice.learnt import Learnt as LearntHead, learn

REMEMBERED = 8
"""Lessons times heads that a worker need not learn again."""
BACKBONE = EfficientNetLite0(PICTURE_SIDE)


def see_picture(request: See) -> Seen:
    pixels = np.frombuffer(decoded(request.picture), dtype=np.uint8).reshape(1, PICTURE_SIDE, PICTURE_SIDE, 3)
    return Seen(features=base64.b64encode(BACKBONE.features(pixels).astype("<f4").tobytes()).decode())


def judge_pictures(request: JudgePictures) -> Learnt:
    return judgement({}, learnt_pictures(request.lesson, "trust"))


def answer_pictures(request: AskPictures) -> Answers:
    features = _rows(request.pictures)
    heads = {name: learnt_pictures(request.lesson, name) for name in request.methods}
    return Answers(methods={name: head.probabilities(features).tolist() for name, head in heads.items()})


def save_pictures(request: SavePictures) -> File:
    """A model that `eigen-reptile predict` reads. It holds features only, and no picture."""
    from eigen_reptile.practice.classifier import FewShotClassifier  # scikit-learn, which takes long

    lesson = request.lesson
    names = [lesson.classes[label] for label in lesson.labels]
    classifier = FewShotClassifier(BACKBONE).fit_features(_features_of(lesson), names)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        classifier.save(path)
        return File(data=base64.b64encode(path.read_bytes()).decode())


@lru_cache(REMEMBERED)
def learnt_pictures(lesson: PictureLesson, head: HeadName) -> LearntHead:
    labels = np.array(lesson.labels, dtype=np.int64)
    return learn(HEADS[head], _features_of(lesson), labels, len(lesson.classes), rejects=False)


def _features_of(lesson: PictureLesson) -> Float[np.ndarray, "m F"]:
    return _rows(tuple(example.features for example in lesson.examples))


def _rows(texts: tuple[str, ...]) -> Float[np.ndarray, "N F"]:
    return np.stack([np.frombuffer(decoded(one), dtype="<f4") for one in texts]).astype(np.float32)
