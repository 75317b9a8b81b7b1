"""What a worker says to the page: progress, and then an answer."""

from typing import Annotated, Literal, final

from pydantic import BaseModel, Field

from eigen_reptile.demo.protocol import Example


@final
class Progress(BaseModel):
    """How far a computation is."""

    kind: Literal["progress"] = "progress"
    done: float


@final
class Failed(BaseModel):
    """Why there is no answer, in words for the user of the page."""

    kind: Literal["failed"] = "failed"
    reason: str


@final
class MethodLearnt(BaseModel):
    """How a method came to fit the examples, step by step; one point for a method without steps."""

    loss: list[float]
    accuracy: list[float]
    """With respect to the given labels."""


@final
class Learnt(BaseModel):
    """The answer to `Learn`."""

    kind: Literal["learnt"] = "learnt"
    methods: dict[str, MethodLearnt]
    trust: list[float | None]
    """The probability that a label is right; None if no other example has it."""
    suggested: list[int]


@final
class Answers(BaseModel):
    """The answer to `Ask`: for each method and drawing the probability of each class."""

    kind: Literal["answers"] = "answers"
    methods: dict[str, list[list[float]]]


@final
class Seen(BaseModel):
    """The answer to `See`: the features of a picture."""

    kind: Literal["seen"] = "seen"
    features: str


@final
class File(BaseModel):
    """The answer to `Save`."""

    kind: Literal["file"] = "file"
    data: str
    """In base64."""


@final
class Opened(BaseModel):
    """The answer to `Open`."""

    kind: Literal["opened"] = "opened"
    classes: list[str]
    examples: list[Example]


@final
class Spectrum(BaseModel):
    """How much of a trajectory's variance lies along its two largest eigenvectors."""

    first: float
    second: float


@final
class Fitted(BaseModel):
    """How one initialisation fits a curve to the points, step by step."""

    curves: list[list[float]]
    """After each step, at the abscissas."""
    errors: list[float]
    """Mean squared error at the points after each step."""
    path: list[tuple[float, float]]
    """The parameters after each step, projected onto the plane of the two largest eigenvectors."""
    spectrum: Spectrum
    walk: list[tuple[float, float]]
    """The same for a random walk with as many steps in as many dimensions."""
    walk_spectrum: Spectrum


@final
class Curves(BaseModel):
    """The answer to `Fit`."""

    kind: Literal["curves"] = "curves"
    x: list[float]
    methods: dict[str, Fitted]


@final
class ShownQuery(BaseModel):
    """A query, and the class that the run has predicted for it; None if it predicted nothing."""

    picture: str
    predicted: int | None


@final
class ShownClass(BaseModel):
    """A class by one of its support images, and its queries."""

    support: str
    queries: list[ShownQuery]


@final
class Shown(BaseModel):
    """The answer to `Show`; no classes if the run has stored no task."""

    kind: Literal["shown"] = "shown"
    classes: list[ShownClass]


Answer = Learnt | Answers | Seen | File | Opened | Curves | Shown | Failed
Message = Annotated[Progress | Answer, Field(discriminator="kind")]
"""What a worker says."""
