"""What the page asks for. Every text and every list has a bound, and nothing is converted to what was expected."""

import base64
import binascii
from abc import ABC, abstractmethod
from collections import Counter
from typing import Annotated, Literal, final

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, model_validator

SIDE = 28
"""Height and width of a drawing."""
PIXELS = SIDE * SIDE
MOST_CLASSES = 10
MOST_EXAMPLES = 20
"""Of each class."""
MOST_QUERIES = 40
MOST_STEPS = 50
MOST_POINTS = 20
MOST_MODEL_BYTES = 2_000_000
MOST_BODY = 3_000_000
"""Bytes of a request: a model file in base64, with room to spare."""

Method = Literal["reptile", "eigen-reptile", "eigen-reptile-ispl", "prototypes", "trust"]
Regression = Literal["reptile", "eigen-reptile"]


def _is_drawing(text: str) -> str:
    if len(decoded(text)) != PIXELS:
        raise ValueError(f"a drawing has {PIXELS} bytes")
    return text


def decoded(text: str) -> bytes:
    """The bytes of a text in base64; ValueError if it is none."""
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError("this is not base64") from error


Drawing = Annotated[str, StringConstraints(max_length=4 * -(-PIXELS // 3)), AfterValidator(_is_drawing)]
"""The bytes of a greyscale image, light ink on black, row by row, in base64."""
Name = Annotated[str, StringConstraints(min_length=1, max_length=40, strip_whitespace=True)]
Label = Annotated[int, Field(ge=0, lt=MOST_CLASSES)]
Coordinate = Annotated[float, Field(ge=-10, le=10, allow_inf_nan=False)]


STRICT = ConfigDict(strict=True, extra="forbid", frozen=True)
"""Of what comes from the page: nothing is converted, and nothing is passed over."""


@final
class Example(BaseModel):
    """A drawing, and the class that somebody gave it."""

    model_config = STRICT
    drawing: Drawing
    label: Label


class Classes(BaseModel, ABC):
    """Classes with examples of each, whatever these are."""

    model_config = STRICT
    classes: Annotated[tuple[Name, ...], Field(strict=False, min_length=2, max_length=MOST_CLASSES)]

    @property
    @abstractmethod
    def labels(self) -> tuple[int, ...]:
        """The class of each example."""

    @model_validator(mode="after")
    def _is_complete(self) -> "Classes":
        if len(set(self.classes)) < len(self.classes):
            raise ValueError("two classes have the same name")
        count = Counter(self.labels)
        if set(count) != set(range(len(self.classes))):
            raise ValueError("every class needs an example, and every example one of the classes")
        if max(count.values()) > MOST_EXAMPLES:
            raise ValueError(f"a class has at most {MOST_EXAMPLES} examples")
        return self


EXAMPLES = Field(strict=False, min_length=2, max_length=MOST_CLASSES * MOST_EXAMPLES)


@final
class Lesson(Classes):
    """Drawings that a method learns from."""

    examples: Annotated[tuple[Example, ...], EXAMPLES]

    @property
    def labels(self) -> tuple[int, ...]:
        return tuple(example.label for example in self.examples)


Methods = Annotated[tuple[Method, ...], Field(strict=False, min_length=1, max_length=2)]


@final
class Learn(BaseModel):
    """Learn by one or two methods, and judge every label."""

    model_config = STRICT
    kind: Literal["learn"] = "learn"
    lesson: Lesson
    methods: Methods


@final
class Ask(BaseModel):
    """What the methods say about drawings, after this number of inner steps."""

    model_config = STRICT
    kind: Literal["ask"] = "ask"
    lesson: Lesson
    methods: Methods
    steps: Annotated[int, Field(ge=0, le=MOST_STEPS)]
    drawings: Annotated[tuple[Drawing, ...], Field(strict=False, min_length=1, max_length=MOST_QUERIES)]


@final
class Save(BaseModel):
    """The classifier that trusts, as a model file or as an ONNX file; or the drawings, as a ZIP archive of pictures."""

    model_config = STRICT
    kind: Literal["save"] = "save"
    lesson: Lesson
    form: Literal["model", "onnx", "pictures"]


@final
class Open(BaseModel):
    """The lesson in a model file."""

    model_config = STRICT
    kind: Literal["open"] = "open"
    file: Annotated[str, StringConstraints(max_length=4 * -(-MOST_MODEL_BYTES // 3))]


@final
class Fit(BaseModel):
    """Fit a curve to points, from the initialisations of two methods."""

    model_config = STRICT
    kind: Literal["fit"] = "fit"
    points: Annotated[
        tuple[Annotated[tuple[Coordinate, Coordinate], Field(strict=False)], ...],
        Field(strict=False, min_length=2, max_length=MOST_POINTS),
    ]


@final
class Show(BaseModel):
    """The example task of a run. Only the server asks for this: no request from the page holds a path."""

    model_config = STRICT
    kind: Literal["show"] = "show"
    folder: str
