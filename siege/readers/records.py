"""What runs and benchmarks write: JSON files, metrics, checkpoints, tensors."""

import json
import random
import struct
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any, final

from eigen_reptile.errors import ConfigError, RunError
from eigen_reptile.report.benchmark import read_benchmark
from eigen_reptile.report.paired import compare_runs
from eigen_reptile.runtime.files import read_json
from eigen_reptile.runtime.run_folder import RunFolder
from eigen_reptile.training.experiment import read_examples
from eigen_reptile.training.metric_lines import read_metrics
from eigen_reptile.training.saved_result import read_result
from eigen_reptile.training.serialise import from_json
from eigen_reptile.training.trained import trained_experiment
from siege import command
from siege.mutate import encoded_json, mutated, mutated_json, signed
from siege.readers.refusal import outcome_of
from siege.victims import TRAIN_IMAGES, write_images

DTYPES = ("F64", "F32", "F16", "BF16", "F8_E5M2", "F8_E4M3", "I64", "U8", "BOOL", "U64", "C64", "F4", "X")
BENCHMARK = {
    "title": "Title", "about": "about", "columns": ["", "per second"], "rows": [["one", 1.5]], "repeats": 3,
    "environment": {"command": "x", "threads": 1},
}  # fmt: skip


@final
class Run:
    """A finished run, whose files are damaged."""

    def __init__(self, folder: Path) -> None:
        self.home = folder
        self.folder = folder / "runs/images"

    def make(self) -> None:
        """Train it, unless that was done."""
        if not self.folder.exists():
            write_images(self.home / "images")
            command.must_succeed(TRAIN_IMAGES, self.home)

    def json(self, name: str) -> Any:
        return json.loads((self.folder / name).read_text())


RunAttack = Callable[[Run, random.Random, Path], str]


def _result(run: Run, rng: random.Random, folder: Path) -> str:
    """A damaged result is refused or compared with the original one, and asked for its experiment.

    Mostly its checksum is made to match, so that its entries are read.
    """
    (folder / "result.json").write_bytes(_mostly_signed(rng, encoded_json(rng, run.json("result.json"))))
    (folder / "config.json").write_bytes((run.folder / "config.json").read_bytes())
    outcome_of(lambda: trained_experiment(folder), ConfigError, RunError)
    read = outcome_of(lambda: read_result(folder / "result.json"), RunError)
    compared = outcome_of(lambda: compare_runs(folder, run.folder), ConfigError, RunError)
    return f"{read}, not compared" if compared == "refused" and read == "read" else read


def _mostly_signed(rng: random.Random, data: bytes) -> bytes:
    return data if rng.random() < 0.1 else signed(data)


def _config(run: Run, rng: random.Random, folder: Path) -> str:
    (folder / "config.json").write_bytes(encoded_json(rng, run.json("config.json")))
    return outcome_of(lambda: from_json(read_json(folder / "config.json")), ConfigError, RunError)


def _metrics(run: Run, rng: random.Random, folder: Path) -> str:
    lines = (run.folder / "metrics.jsonl").read_bytes().splitlines()
    for place in rng.sample(range(len(lines)), rng.randint(1, 3)):
        lines[place] = encoded_json(rng, json.loads(lines[place]))
    data = b"\n".join(lines) + b"\n"
    (folder / "metrics.jsonl").write_bytes(mutated(rng, data) if rng.random() < 0.3 else data)
    return outcome_of(lambda: read_metrics(RunFolder(folder), replicas=1), RunError)


def _checkpoint(run: Run, rng: random.Random, folder: Path) -> str:
    """Checkpoints whose tensors or descriptions are damaged; the checksums are mostly made to match."""
    (folder / "checkpoints").mkdir()
    for name in ("config.json", "metrics.jsonl"):
        (folder / name).write_bytes((run.folder / name).read_bytes())
    for file in sorted((run.folder / "checkpoints").iterdir(), reverse=True):  # tensors first
        data = file.read_bytes()
        if file.suffix == ".json":
            tensors = folder / "checkpoints" / file.with_suffix(".safetensors").name
            value = json.loads(data) | {"sha256": sha256(tensors.read_bytes()).hexdigest()}
            data = json.dumps(value).encode() if rng.random() < 0.5 else encoded_json(rng, value)
            data = _mostly_signed(rng, data)
        elif rng.random() < 0.5:
            data = mutated(rng, data)
        (folder / "checkpoints" / file.name).write_bytes(data)
    return outcome_of(lambda: RunFolder(folder).load_checkpoint(), RunError)


def _benchmark(run: Run, rng: random.Random, folder: Path) -> str:
    (folder / "x.json").write_bytes(encoded_json(rng, BENCHMARK))
    return outcome_of(lambda: read_benchmark(folder / "x.json"), RunError)


def _example(run: Run, rng: random.Random, folder: Path) -> str:
    """Tensors with a damaged header, or with types that numpy does not have."""
    example = (run.folder / "example.safetensors").read_bytes()
    length = struct.unpack("<Q", example[:8])[0]
    header, body = json.loads(example[8 : 8 + length]), example[8 + length :]
    if rng.random() < 0.3:
        entry = rng.choice([entry for name, entry in header.items() if name != "__metadata__"])
        entry["dtype"] = rng.choice(DTYPES)
        entry["shape"] = rng.choice((entry["shape"], [1], [2**40], [0], [], [-1], [2**63, 2]))
    else:
        header = mutated_json(rng, header)
    text = json.dumps(header).encode(errors="surrogatepass")
    data = struct.pack("<Q", len(text)) + text + body
    (folder / "example.safetensors").write_bytes(mutated(rng, data) if rng.random() < 0.2 else data)
    return outcome_of(lambda: read_examples(folder), RunError)


ATTACKS: dict[str, RunAttack] = {
    "result": _result,
    "config": _config,
    "metrics": _metrics,
    "checkpoint": _checkpoint,
    "benchmark": _benchmark,
    "example": _example,
}
