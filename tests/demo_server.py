"""`eigen-reptile demo` in a process of its own, as a user would start it."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

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


def make_run(folder: Path) -> None:
    """A run folder with the metrics of a training that has not finished."""
    folder.mkdir(parents=True)
    config = '{"method": {"kind": "EigenReptile"}, "data": {"kind": "Glyphs"}, "meta": {"steps": 100}}'
    (folder / "config.json").write_text(config)
    lines = [
        f'{{"kind": "train", "step": {step}, "length": {1 + step / 50}, "explained_variance_ratio": {0.5 + step / 400}, '
        f'"cosine_to_reptile": {0.9 - step / 500}}}'
        for step in range(10, 101, 10)
    ]
    (folder / "metrics.jsonl").write_text("\n".join([*lines, '{"kind": "validation", "step": 50, "score": 0.7}']) + "\n")
