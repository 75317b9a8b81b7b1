"""The test task that a run has stored to be shown: a support image of each class, and queries with their answers."""

import base64
import io
from pathlib import Path

import numpy as np
from jaxtyping import UInt8
from PIL import Image

from eigen_reptile.demo.protocol import Show
from eigen_reptile.demo.replies import Shown, ShownClass, ShownQuery
from eigen_reptile.training.experiment import read_examples


def show_example(request: Show) -> Shown:
    found = read_examples(Path(request.folder))
    if found is None:
        return Shown(classes=[])
    way = len(found["support"])
    classes = [ShownClass(support=_as_png(one), queries=[]) for one in found["support"]]
    for image, label, predicted in zip(found["query"], found["query_y"], found["predicted"], strict=True):
        answer = int(predicted) if 0 <= predicted < way else None
        classes[int(label)].queries.append(ShownQuery(picture=_as_png(image), predicted=answer))
    return Shown(classes=classes)


def _as_png(image: UInt8[np.ndarray, "C H W"]) -> str:
    """An image as the address of itself."""
    pixels = image[0] if len(image) == 1 else image.transpose(1, 2, 0)
    data = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(pixels)).save(data, "PNG")
    return "data:image/png;base64," + base64.b64encode(data.getvalue()).decode()
