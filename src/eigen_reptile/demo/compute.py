"""The worker process: reads one task a line, and writes progress and an answer, one a line.

Everything that needs torch is here, so that the first page need not wait for it.
"""

import os
import sys
from collections.abc import Callable
from typing import Annotated, TextIO

import torch
from pydantic import Field, TypeAdapter, ValidationError

from eigen_reptile.demo.curve import fit_curves
from eigen_reptile.demo.drawing import answer_drawings, learn_lesson
from eigen_reptile.demo.picture_protocol import AskPictures, JudgePictures, PictureTask, SavePictures, See
from eigen_reptile.demo.protocol import Ask, Fit, Learn, Open, Save, Show
from eigen_reptile.demo.replies import Answer, Failed, Message, Progress
from eigen_reptile.errors import ConfigError, DataError, RunError

Task = Annotated[Learn | Ask | Save | Open | Fit | Show | PictureTask, Field(discriminator="kind")]
"""What a worker can be told to compute."""
TASKS: TypeAdapter[Task] = TypeAdapter(Task)


def main() -> None:
    torch.set_num_threads(1)
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # whatever a library prints is no answer
    _say(answers, Progress(done=0.0))  # ready
    for line in sys.stdin:
        _say(answers, _answer(line, lambda done: _say(answers, Progress(done=done))))


def _say(answers: TextIO, message: Message) -> None:
    answers.write(message.model_dump_json() + "\n")
    answers.flush()


def _answer(line: str, report: Callable[[float], None]) -> Answer:
    try:
        return compute(TASKS.validate_json(line), report)
    except (ConfigError, DataError, RunError, ValidationError, ValueError) as error:
        return Failed(reason=" ".join(str(error).split())[:300])


def compute(task: Task, report: Callable[[float], None]) -> Answer:
    match task:
        case Learn():
            return learn_lesson(task, report)
        case Ask():
            return answer_drawings(task)
        case Save() | Open():
            from eigen_reptile.demo.model_files import open_lesson, save_lesson  # scikit-learn, which takes long

            return save_lesson(task) if isinstance(task, Save) else open_lesson(task)
        case Fit():
            return fit_curves(task)
        case Show():
            from eigen_reptile.demo.example_task import show_example

            return show_example(task)
        case See() | JudgePictures() | AskPictures() | SavePictures():
            return _compute_pictures(task)


def _compute_pictures(task: PictureTask) -> Answer:
    from eigen_reptile.demo import pictures  # only for whoever has the extra `vision`

    match task:
        case See():
            return pictures.see_picture(task)
        case JudgePictures():
            return pictures.judge_pictures(task)
        case AskPictures():
            return pictures.answer_pictures(task)
        case SavePictures():
            return pictures.save_pictures(task)


if __name__ == "__main__":
    main()
