"""Model files with damaged tensors and descriptions, and pictures for a good model: what `predict` and `info` read."""

import io
import json
import random
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import Any, final

import torch
from torch import Tensor

from eigen_reptile.cli.classifying import info, predict
from eigen_reptile.cli.output_options import Output
from eigen_reptile.cli.practice_options import InfoOptions, PredictOptions
from eigen_reptile.errors import ConfigError, RunError
from eigen_reptile.practice.heads import HEADS
from eigen_reptile.practice.model_file import ModelFile, read_model, write_model
from eigen_reptile.runtime.strict_json import parse_json
from siege import command
from siege.case import BrokenPromiseError
from siege.mutate import ODD_VALUES, encoded_json, mutated
from siege.readers.images import damaged_picture, generated_picture
from siege.readers.records import Run
from siege.readers.refusal import outcome_of
from siege.victims import ADAPT

KINDS: dict[str, tuple[str, ...]] = {"linear": ("--reject", "0.1"), "neighbours": ("--head", "nearest-neighbours")}
"""A head that is in the file, and one that learns again when it is read."""


@final
class Models:
    """Good models of a run's pictures."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def make(self) -> None:
        """Learn them, unless that was done."""
        self._run.make()
        for name, options in KINDS.items():
            if not self.file(name).exists():
                command.must_succeed((*ADAPT[:-1], self.file(name).name, *options), self._run.home)

    def file(self, name: str) -> Path:
        return self._run.home / f"{name}.safetensors"

    @cached_property
    def contents(self) -> list[ModelFile]:
        return [read_model(self.file(name)) for name in KINDS]

    @property
    def picture(self) -> Path:
        return self._run.home / "images/class 0/0.png"


ModelAttack = Callable[[Models, random.Random, Path], str]


def _generated(models: Models, rng: random.Random, folder: Path) -> str:
    """A file whose checksum is right, with other tensors or another description."""
    description, tensors = rng.choice(models.contents)
    if rng.random() < 0.6:
        description = _other_description(rng, json.loads(description))
    else:
        tensors = _other_tensors(rng, dict(tensors))
    write_model(folder / "x.safetensors", ModelFile(description, tensors))
    return _use(rng, folder / "x.safetensors", models.picture)


def _damaged(models: Models, rng: random.Random, folder: Path) -> str:
    file = folder / "x.safetensors"
    file.write_bytes(mutated(rng, models.file(rng.choice([*KINDS])).read_bytes()))
    return _use(rng, file, models.picture)


def _pictures(models: Models, rng: random.Random, folder: Path) -> str:
    """Pictures that are damaged, or contradict themselves, one of them beside a good one."""
    for number in range(rng.randint(1, 2)):
        suffix, data = rng.choice((damaged_picture, generated_picture))(rng)
        (folder / f"{number}.{suffix}").write_bytes(data)
    return _use(rng, models.file("linear"), models.picture, *sorted(folder.iterdir()))


def _other_description(rng: random.Random, value: Any) -> str:
    """One with another head, or with odd entries."""
    if rng.random() < 0.3:
        head = rng.choice([*HEADS.values()])
        value["head"] = {"kind": type(head).__name__, "settings": asdict(head)}
        if settings := value["head"]["settings"]:
            settings[rng.choice([*settings])] = rng.choice((*ODD_VALUES, 10**9, 1e-300, 1e300))
        return json.dumps(value)
    return encoded_json(rng, value).decode(errors="replace")


def _other_tensors(rng: random.Random, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Some with another type, shape, name or value."""
    for _ in range(rng.randint(1, 2)):
        name = rng.choice([*tensors])
        tensors[name] = _other_tensor(rng, tensors[name])
        match rng.randrange(8):
            case 0:
                del tensors[name]
            case 1:
                tensors[rng.choice((f"{name}x", "", "head.weight", "support.features"))] = tensors.pop(name)
            case 2:
                tensors[name] = tensors[rng.choice([*tensors])].clone()
    return tensors


def _other_tensor(rng: random.Random, tensor: Tensor) -> Tensor:
    match rng.randrange(5):
        case 0:
            return tensor.to(rng.choice((torch.float16, torch.float64, torch.int64, torch.uint8, torch.bool)))
        case 1:
            return tensor.reshape(rng.choice(((-1,), (1, -1), (-1, 1), (1, *tensor.shape))))
        case 2:
            return torch.zeros(rng.choice(((0,), (0, 0), (), (1,), (1, 1), (4096, 2), (36, 4096))), dtype=tensor.dtype)
        case 3:
            return tensor[: rng.randint(0, 2)] if tensor.ndim else tensor
    tensor = tensor.clone()
    odd = torch.tensor(rng.choice((-1, 127, float("nan"), 1e30, 1e300))).to(tensor.dtype)
    tensor.view(-1)[rng.randrange(max(1, tensor.numel())) :][:1] = odd
    return tensor


def _use(rng: random.Random, model: Path, *pictures: Path) -> str:
    """Let the commands read the model, and check that what they print can be read."""
    output = Output(json=rng.random() < 0.9)
    with redirect_stdout(io.StringIO()) as card:
        described = outcome_of(lambda: info(InfoOptions(model, output=output)), ConfigError, RunError)
    with redirect_stdout(io.StringIO()) as answers:
        options = PredictOptions(model, pictures, output=output)
        answered = outcome_of(lambda: predict(options), ConfigError, RunError)
    for printed in (card.getvalue(), answers.getvalue()):
        if output.json and printed:
            try:
                parse_json(printed.encode())
            except ValueError as error:
                raise BrokenPromiseError(f"it printed what is not JSON: {error}") from error
    return f"{described}, no answers" if described == "read" and answered == "refused" else answered


ATTACKS: dict[str, ModelAttack] = {
    "model, generated": _generated,
    "model, damaged": _damaged,
    "pictures for a model": _pictures,
}
