"""What the page asks for about photographs.

The browser sends the pixels of each once, and gets its features back; everything else is asked with these.
"""

import struct
from typing import Annotated, Literal, final

from pydantic import AfterValidator, BaseModel, Field, StringConstraints

from eigen_reptile.demo.protocol import EXAMPLES, MOST_QUERIES, STRICT, Classes, Label, decoded

PICTURE_SIDE = 160
"""Height and width at which the backbone sees a picture."""
PICTURE_BYTES = PICTURE_SIDE * PICTURE_SIDE * 3
FEATURES = 1280
"""Numbers that the backbone makes of a picture."""
FEATURE_BYTES = 4 * FEATURES

HeadName = Literal["trust", "mean", "logistic"]


def _is_picture(text: str) -> str:
    if len(decoded(text)) != PICTURE_BYTES:
        raise ValueError(f"a picture has {PICTURE_BYTES} bytes")
    return text


def _are_features(text: str) -> str:
    data = decoded(text)
    if len(data) != FEATURE_BYTES:
        raise ValueError(f"the features of a picture have {FEATURE_BYTES} bytes")
    if not all(-1 <= value <= 1 for value in struct.unpack(f"<{FEATURES}f", data)):  # as of unit length; NaN is not
        raise ValueError("features are numbers from -1 to 1")
    return text


Picture = Annotated[str, StringConstraints(max_length=4 * -(-PICTURE_BYTES // 3)), AfterValidator(_is_picture)]
"""The bytes of an RGB image, row by row, in base64."""
Features = Annotated[str, StringConstraints(max_length=4 * -(-FEATURE_BYTES // 3)), AfterValidator(_are_features)]
"""Little-endian numbers in single precision, in base64."""
Heads = Annotated[tuple[HeadName, ...], Field(strict=False, min_length=1, max_length=2)]


@final
class See(BaseModel):
    """The features of a picture."""

    model_config = STRICT
    kind: Literal["see"] = "see"
    picture: Picture


@final
class PictureExample(BaseModel):
    """A picture by its features, and the class that somebody gave it."""

    model_config = STRICT
    features: Features
    label: Label


@final
class PictureLesson(Classes):
    """Pictures that a head learns from."""

    examples: Annotated[tuple[PictureExample, ...], EXAMPLES]

    @property
    def labels(self) -> tuple[int, ...]:
        return tuple(example.label for example in self.examples)


@final
class JudgePictures(BaseModel):
    """Judge every label."""

    model_config = STRICT
    kind: Literal["judge-pictures"] = "judge-pictures"
    lesson: PictureLesson


@final
class AskPictures(BaseModel):
    """What the heads say about pictures."""

    model_config = STRICT
    kind: Literal["ask-pictures"] = "ask-pictures"
    lesson: PictureLesson
    methods: Heads
    pictures: Annotated[tuple[Features, ...], Field(strict=False, min_length=1, max_length=MOST_QUERIES)]


@final
class SavePictures(BaseModel):
    """The classifier that trusts, as a model file."""

    model_config = STRICT
    kind: Literal["save-pictures"] = "save-pictures"
    lesson: PictureLesson


PictureTask = See | JudgePictures | AskPictures | SavePictures
