"""`eigen-reptile demo` in a process of its own, as a user would start it."""

import base64
import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
from safetensors.numpy import save_file

from hand_drawings import queries

SECONDS = 60


class Served(NamedTuple):
    """A page, and the process that serves it."""

    address: str
    process: subprocess.Popen[str]

    @property
    def port(self) -> int:
        return int(re.findall(r":(\d+)/", self.address)[0])


def start(*options: str) -> Served:
    """`eigen-reptile demo` on a free port, as a user would start it."""
    command = [sys.executable, "-m", "eigen_reptile", "demo", "--port", "0", "--no-browser", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert process.stdout is not None
    return Served(process.stdout.readline().split()[-1], process)


def stop(served: Served) -> None:
    served.process.terminate()
    served.process.communicate(timeout=SECONDS)


def make_run(folder: Path, slowness: float = 1.0) -> None:
    """A run folder with the metrics of a training that has not finished."""
    folder.mkdir(parents=True)
    config = {"method": {"kind": "EigenReptile"}, "data": {"kind": "Glyphs"}, "meta": {"steps": 1000}}
    (folder / "config.json").write_text(json.dumps(config))
    lines = []
    for step in range(20, 801, 20):
        learnt = 1 - math.exp(-step / (200 * slowness))
        shaken = 0.02 * math.sin(step * slowness)
        measures = {
            "explained_variance_ratio": 0.6 + 0.2 * learnt + shaken,
            "cosine_to_reptile": 0.97 - 0.1 * learnt + shaken,
        }
        lines.append({"kind": "train", "step": step, "length": 0.5 + learnt + shaken, **measures})
        if step % 100 == 0:
            lines.append({"kind": "validation", "step": step, "score": 0.5 + 0.4 * learnt + shaken})
    images = np.stack([np.frombuffer(base64.b64decode(one), dtype=np.uint8).reshape(1, 28, 28) for one in queries(4)])
    labels = {"query_y": np.repeat([0, 1], 4), "predicted": np.array([0, 1, 0, 0, 1, 1, 1, -1])}
    save_file({"support": images[[0, 4]], "query": images, **labels}, folder / "example.safetensors")
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
