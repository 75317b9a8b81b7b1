"""The classifier that trusts, as a file that `eigen-reptile predict` reads, and back to the page.

The file also holds the drawings themselves, so that the page can go on where it was saved.
"""

import base64
import tempfile
from pathlib import Path

import numpy as np
import torch

from eigen_reptile.demo.drawing import features_of, pixels_of
from eigen_reptile.demo.protocol import MOST_CLASSES, MOST_EXAMPLES, PIXELS, SIDE, Example, File, Open, Opened, Save
from eigen_reptile.demo.protocol import Lesson, decoded
from eigen_reptile.demo.shipped import embedding
from eigen_reptile.errors import RunError
from eigen_reptile.practice.classifier import FewShotClassifier
from eigen_reptile.practice.model_file import ModelFile, read_model, take_tensor, write_model
from eigen_reptile.practice.saved_classifier import from_file

DRAWINGS = "demo.drawings"
"""The tensor of drawings, which other readers of model files pass over."""


def save_lesson(request: Save) -> File:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        classifier, drawings = _classifier(request.lesson)
        if request.form == "onnx":
            from eigen_reptile.practice.onnx_export import export_onnx  # which takes seconds to import

            export_onnx(classifier, path)
        else:
            classifier.save(path)
            saved = read_model(path)
            tensors = saved.tensors | {DRAWINGS: torch.tensor(drawings)}
            write_model(path, ModelFile(saved.description, tensors))
        return File(data=base64.b64encode(path.read_bytes()).decode())


def _classifier(lesson: Lesson) -> tuple[FewShotClassifier, np.ndarray]:
    drawings = pixels_of(tuple(example.drawing for example in lesson.examples))
    names = [lesson.classes[example.label] for example in lesson.examples]
    return FewShotClassifier(embedding()).fit_features(features_of(drawings), names), drawings


def open_lesson(request: Open) -> Opened:
    """The lesson in a model file; RunError if it holds none that the page can show."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "this file"
        path.write_bytes(decoded(request.file))
        model = read_model(path)
    if DRAWINGS not in model.tensors:
        raise RunError("this model was not saved by this page, so it holds no drawings: use `eigen-reptile predict`")
    saved = from_file(model)
    labels = saved.learnt.labels
    shape = len(labels), SIDE, SIDE
    drawings = take_tensor(model.tensors, DRAWINGS, torch.uint8, shape).reshape(-1, PIXELS).numpy()
    if len(saved.classes) > MOST_CLASSES or np.bincount(labels).max() > MOST_EXAMPLES:
        raise RunError(f"the page shows at most {MOST_CLASSES} classes of {MOST_EXAMPLES} examples")
    examples = [
        Example(drawing=base64.b64encode(one.tobytes()).decode(), label=int(label))
        for one, label in zip(drawings, labels, strict=True)
    ]
    return Opened(classes=[*map(str, saved.classes)], examples=examples)
