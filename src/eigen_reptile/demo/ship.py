"""Make the files of initialisations from finished runs, and measure them: python -m eigen_reptile.demo.ship RUNS

docs/demo.md has the commands that train these runs, which are the folders of RUNS.
"""

import base64
import json
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple, get_args

import numpy as np
import safetensors.torch
import torch
from jaxtyping import Int
from scipy.special import stdtrit
from torch import Tensor

from eigen_reptile.data import Bank, Glyphs, TaskShape
from eigen_reptile.demo.drawing import answer_drawings, learnt_head
from eigen_reptile.demo.protocol import MOST_STEPS, Ask, Example, Lesson, Method, Regression
from eigen_reptile.demo.shipped import ABOUT
from eigen_reptile.inner import InnerState
from eigen_reptile.practice.backbones.trained_run import RunBackbone, TrainedRun
from eigen_reptile.runtime.files import write_atomically, write_json
from eigen_reptile.runtime.progress import no_progress
from eigen_reptile.runtime.rng import generator_at
from eigen_reptile.training.serialise import to_json
from eigen_reptile.training.setup import set_up
from eigen_reptile.training.trained import last_checkpoint, trained_experiment, trained_state

FOLDER = Path(__file__).parent / "initialisations"
METHODS: tuple[Method, ...] = get_args(Method)
TASKS = 20
QUERIES = 4
"""Of each class."""
SEED = 0


class Situation(NamedTuple):
    """Tasks on which the methods are measured."""

    way: int
    shots: int
    wrong: int
    """Wrong labels in the whole support, each of them any other class."""


SITUATIONS = (
    Situation(2, 3, 0),
    Situation(2, 3, 1),
    Situation(5, 5, 0),
    Situation(5, 5, 5),
    Situation(5, 5, 10),
    Situation(10, 5, 10),
)


def ship(runs: Path) -> None:
    """Write all files, then measure what the page does with them."""
    FOLDER.mkdir(exist_ok=True)
    for name in ("reptile", "eigen-reptile", "eigen-reptile-ispl"):
        _write(f"glyphs-{name}", *_initialisation(runs / name))
    _write("glyphs-prototypical", *_embedding(runs / "prototypical"))
    for name in get_args(Regression):
        _write(f"sine-{name}", *_initialisation(runs / f"sine-{name}"))
    write_json(FOLDER / "accuracy.json", measured())


def _write(name: str, about: Any, tensors: dict[str, Tensor]) -> None:
    parts = {part: tensor.float().contiguous() for part, tensor in tensors.items()}
    write_atomically(FOLDER / f"{name}.safetensors", safetensors.torch.save(parts, {ABOUT: json.dumps(about)}))


def _initialisation(folder: Path) -> tuple[Any, dict[str, Tensor]]:
    run = _trained(folder)
    square, steps = run.inner_state
    return to_json(run.setup.exp), {"theta": run.theta, "square": square, "steps": steps}


def _trained(folder: Path) -> TrainedRun:
    """What the first replica of a run has learnt, whether it was tested already or not."""
    exp = trained_experiment(folder)
    setup = set_up(exp, no_progress, "cpu", trains=False)
    state = trained_state(folder, exp, last_checkpoint(folder), setup)
    kept = state.best if exp.meta.keep == "best" else state
    return TrainedRun(setup, kept.theta[:1], InnerState(*(part[:1] for part in kept.inner_state)), exp.seeds[0])


def _embedding(folder: Path) -> tuple[Any, dict[str, Tensor]]:
    """The network for dark ink on white paper instead of light ink on black.

    White is subtracted, so that paper becomes 0 and ink negative, and the first convolution, which has no bias, changes
    its sign: the same numbers follow.
    """
    saved = RunBackbone.of(_trained(folder)).saved()
    first = next(name for name, tensor in saved.tensors.items() if tensor.ndim == 4)
    return {**saved.description, "mean": 1.0}, {**saved.tensors, first: -saved.tensors[first]}


def measured() -> dict[str, Any]:
    """The accuracy of every method on tasks of test glyphs, by the functions that the page uses."""
    bank = Glyphs().load(no_progress).test
    return {
        "data": f"test glyphs, {TASKS} tasks, {QUERIES} queries a class, {MOST_STEPS} inner steps, seed {SEED}",
        "versions": {name: version(name) for name in ("eigen-reptile", "torch")},
        "rows": [{**one._asdict(), **_row(bank, one)} for one in SITUATIONS],
    }


def _row(bank: Bank, situation: Situation) -> dict[str, Any]:
    """Accuracies, and how many of the wrong labels are the least trusted ones."""
    way, shots, wrong = situation
    right: dict[str, list[float]] = {method: [] for method in METHODS}
    found = []
    for task in range(TASKS):
        rng = generator_at(SEED, "tasks", task)
        samples = bank.draw_tasks(1, TaskShape(way, shots, QUERIES), [rng])
        lesson, is_wrong = _lesson(situation, samples.x[0, 0], samples.y[0, 0], rng)
        drawings = tuple(map(_text, samples.query_x[0, 0]))
        for method in METHODS:
            ask = Ask(lesson=lesson, methods=(method,), steps=MOST_STEPS, drawings=drawings)
            answer = answer_drawings(ask).methods[method]
            right[method].append(float(np.mean(np.argmax(answer, 1) == samples.query_y[0, 0])))
        if wrong:
            order = np.argsort(np.nan_to_num(learnt_head(lesson, "trust").trust, nan=1.0))
            found.append(float(is_wrong[order[:wrong]].mean()))
    rows: dict[str, Any] = {method: _summary(values) for method, values in right.items()}
    return rows | ({"wrong_labels_found": _summary(found)} if wrong else {})


def _summary(values: list[float]) -> dict[str, float]:
    """The mean in percent, and half the width of its 95 % interval over tasks."""
    error = stdtrit(len(values) - 1, 0.975) * np.std(values, ddof=1) / np.sqrt(len(values))
    return {"percent": round(100 * float(np.mean(values)), 1), "ci95": round(100 * float(error), 1)}


def _lesson(
    situation: Situation, x: np.ndarray, y: Int[np.ndarray, "m"], rng: np.random.Generator
) -> tuple[Lesson, np.ndarray]:
    """The support as a lesson, with as many wrong labels as the situation has, and which these are."""
    labels = y.copy()
    changed = rng.choice(len(y), situation.wrong, replace=False)
    labels[changed] = (y[changed] + rng.integers(1, situation.way, len(changed))) % situation.way
    examples = tuple(Example(drawing=_text(one), label=int(label)) for one, label in zip(x, labels, strict=True))
    names = tuple(f"class {number}" for number in range(situation.way))
    return Lesson(classes=names, examples=examples), labels != y


def _text(image: np.ndarray) -> str:
    return base64.b64encode(image.tobytes()).decode()


if __name__ == "__main__":
    torch.set_num_threads(1)
    ship(Path(sys.argv[1]))
