"""Training with two workers against one."""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.timing import measured_table, speed_columns
from eigen_reptile.errors import RunError
from eigen_reptile.report.benchmark import BenchmarkTable
from eigen_reptile.runtime.progress import StartProgress

ITERATIONS = 100


def workers(repeats: int, start_progress: StartProgress) -> BenchmarkTable:
    """Iterations per second of one and of two worker processes with one thread each, on meta-batches of 6 tasks."""
    report = start_progress("Workers", 2 * repeats)
    speeds: dict[int, list[float]] = {1: [], 2: []}
    for turn in range(repeats):
        for count, own in speeds.items():
            own.append(_iterations_per_second(count))
            report(2 * turn + count, {})
    gains = [two / one for one, two in zip(speeds[1], speeds[2], strict=True)]
    rows: list[list[str | float]] = [
        ["6 tasks", name, statistics.median(own), min(own), max(own), gain]
        for (name, gain), own in zip(
            (("one worker", 1.0), ("two workers", statistics.median(gains))), speeds.values(), strict=True
        )
    ]
    about = (
        f"Iterations per second of `train eigen-reptile glyphs` with 6 tasks in a meta-batch, over {ITERATIONS} "
        "iterations; every worker has one thread."
    )
    return measured_table("Workers", about, speed_columns(["one worker"]), rows, repeats)


def _iterations_per_second(count: int) -> float:
    """The speed that a new run logs."""
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        words = ["train", "eigen-reptile", "glyphs", "--out", str(run), "--quiet", "--workers", str(count)]
        words += ["--meta.batch", "6", "--meta.steps", str(ITERATIONS), "--evaluation.every", str(ITERATIONS)]
        words += ["--evaluation.tasks", "2", "--evaluation.monitor-tasks", "2", "--evaluation.shots", "1"]
        environ = os.environ | {"OMP_NUM_THREADS": "1"}
        ended = subprocess.run(
            [sys.executable, "-m", "eigen_reptile", *words], env=environ, capture_output=True, text=True, check=False
        )
        if ended.returncode != 0:
            raise RunError(f"training with {count} workers failed: {ended.stderr.strip()}")
        lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
        speed: float = next(line["iterations_per_second"] for line in reversed(lines) if line["kind"] == "train")
        return speed
