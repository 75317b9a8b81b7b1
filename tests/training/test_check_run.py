"""`check_run` notices damage to any file of a run, and nothing else."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from eigen_reptile.training.check_run import check_run
from eigen_reptile.training.experiment import evaluate_run, run
from patterns import SMALL

EXPERIMENT = replace(SMALL, meta=replace(SMALL.meta, steps=4))
OLD_RUN = Path(__file__).parent / "old_run"
FILES = (
    "config.json",
    "environment.json",
    "metrics.jsonl",
    "result.json",
    "example.safetensors",
    "checkpoints/step-000000002.json",
    "checkpoints/step-000000002.safetensors",
    "checkpoints/step-000000004.json",
    "checkpoints/step-000000004.safetensors",
)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("finished") / "run"
    run(EXPERIMENT, folder, checkpoint_every=2)
    return folder


def halve(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def zero(file: Path) -> None:
    file.write_bytes(bytes(file.stat().st_size))


def test_intact_runs_have_no_problems(finished: Path, tmp_path: Path) -> None:
    assert {str(file.relative_to(finished)) for file in finished.rglob("*.*") if "tfevents" not in file.name} >= {
        *FILES
    }
    assert check_run(finished) == []
    assert check_run(OLD_RUN) == []
    evaluate_run(finished, EXPERIMENT, tmp_path / "again")
    assert check_run(tmp_path / "again") == []
    shutil.copytree(finished, tmp_path / "unfinished")
    (tmp_path / "unfinished" / "result.json").unlink()
    with (tmp_path / "unfinished" / "metrics.jsonl").open("ab") as file:
        file.write(b'{"kind": "tr')
    assert check_run(tmp_path / "unfinished") == []


@pytest.mark.parametrize("damage", [halve, zero])
@pytest.mark.parametrize("name", FILES)
def test_damage_to_any_file_is_named(finished: Path, tmp_path: Path, name: str, damage: Callable[[Path], None]) -> None:
    shutil.copytree(finished, tmp_path / "run")
    damage(tmp_path / "run" / name)
    problems = check_run(tmp_path / "run")
    named = Path(name).name if "checkpoints" not in name else f"the checkpoint of step {int(Path(name).stem[-9:])} in"
    assert any(named in problem for problem in problems)
    assert all(len(problem.splitlines()) == 1 for problem in problems)


@pytest.mark.parametrize("name", ["metrics.jsonl", "checkpoints/step-000000004.safetensors", "example.safetensors"])
def test_a_file_that_is_missing_is_named(finished: Path, tmp_path: Path, name: str) -> None:
    shutil.copytree(finished, tmp_path / "run")
    (tmp_path / "run" / name).unlink()
    assert len(check_run(tmp_path / "run")) == 1


def test_a_single_flipped_bit_in_parameters_metrics_or_result_is_noticed(finished: Path, tmp_path: Path) -> None:
    for name in ("metrics.jsonl", "result.json", "checkpoints/step-000000004.safetensors"):
        for place in (0.1, 0.5, 0.9):
            folder = tmp_path / f"{Path(name).suffix}{place}"
            shutil.copytree(finished, folder)
            data = bytearray((folder / name).read_bytes())
            data[int(place * len(data))] ^= 1
            (folder / name).write_bytes(data)
            assert check_run(folder), f"{name} at {place}"
