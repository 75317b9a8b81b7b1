"""The classifier that trusts, as a file that `eigen-reptile predict` reads, and back to the page.

The file also holds the drawings themselves, so that the page can go on where it was saved.
"""

import base64
import io
import re
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from eigen_reptile.demo.drawing import features_of, on_paper, pixels_of
from eigen_reptile.demo.protocol import MOST_CLASSES, MOST_EXAMPLES, PIXELS, SIDE, Example, Lesson, Open, Save, decoded
from eigen_reptile.demo.replies import File, Opened
from eigen_reptile.demo.shipped import embedding
from eigen_reptile.errors import RunError
from eigen_reptile.practice.classifier import FewShotClassifier
from eigen_reptile.practice.model_file import ModelFile, read_model, take_tensor, write_model
from eigen_reptile.practice.saved_classifier import from_file

DRAWINGS = "demo.drawings"
"""The tensor of drawings, which other readers of model files pass over."""


def save_lesson(request: Save) -> File:
    if request.form == "pictures":
        return _file(_pictures(request.lesson))
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
        return _file(path.read_bytes())


def _file(data: bytes) -> File:
    return File(data=base64.b64encode(data).decode())


def _pictures(lesson: Lesson) -> bytes:
    """A folder of pictures for each class, as `eigen-reptile adapt` takes them."""
    drawings = on_paper(pixels_of(tuple(example.drawing for example in lesson.examples)))[..., 0]
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for number, (example, drawing) in enumerate(zip(lesson.examples, drawings, strict=True), 1):
            picture = io.BytesIO()
            Image.fromarray(drawing).save(picture, "PNG")
            archive.writestr(f"{_folder_name(lesson, example.label)}/{number}.png", picture.getvalue())
    return packed.getvalue()


def _folder_name(lesson: Lesson, label: int) -> str:
    """The name of a class, as far as every system allows it; with its number if that is another one's too."""
    names = [re.sub(r"[^\w-]+", " ", name).strip() or "class" for name in lesson.classes]
    return names[label] if names.count(names[label]) == 1 else f"{names[label]} {label + 1}"


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
