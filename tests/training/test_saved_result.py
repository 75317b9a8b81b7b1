"""result.json: what contradicts itself, was changed, or belongs to another experiment is refused in one line."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from eigen_reptile.errors import RunError
from eigen_reptile.training.config import Experiment, MetaConfig
from eigen_reptile.training.evaluate import EvalConfig
from eigen_reptile.training.experiment import run
from eigen_reptile.training.saved_result import read_result
from patterns import SMALL
from siege.mutate import signed

CURVES = Experiment(
    meta=MetaConfig(steps=2, lr=(0.5, 1.0)),
    evaluation=EvalConfig(tasks=2, monitor_tasks=2, every=1, shots=(3,), inner_steps=(0, 2), snapshot_steps=(1, 2)),
    seeds=(3, 4),
    compile="off",
)
IMAGES = replace(SMALL, meta=replace(SMALL.meta, steps=2), seeds=(3, 4))


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The folders of two finished runs."""
    folder = tmp_path_factory.mktemp("finished")
    for name, exp in (("curves", CURVES), ("images", IMAGES)):
        run(exp, folder / name)
    return {name: folder / name for name in ("curves", "images")}


Change = Callable[[dict[str, Any]], object]
CONTRADICTIONS: dict[str, tuple[str, Change, str]] = {
    "accuracy of 7": ("images", lambda value: value["test"][0].update(mean=[7.0, 0.5]), "from 0 to 1, not 7"),
    "negative accuracy": ("images", lambda value: value["test"][1]["per_seed"][0].__setitem__(0, -0.1), "per_seed"),
    "one task": ("images", lambda value: value["test"][0]["per_task"][0][0].__setitem__(1, 1.1), "per_task"),
    "negative error": ("curves", lambda value: value["choice"].update(validation=-1.0), "choice"),
    "negative steps": ("curves", lambda value: value.update(steps=-2), "`steps` must be from 0 to 2, not -2"),
    "too many steps": ("curves", lambda value: value.update(steps=10**12), "`steps`"),
    "negative duration": ("curves", lambda value: value.update(seconds=-1), "`seconds`"),
    "other measure": ("images", lambda value: value.update(measure="squared error"), "`measure` must be accuracy"),
    "other seed": ("curves", lambda value: value["replicas"][1].update(seed=5), "`replicas` must be the 4"),
    "a replica too few": ("curves", lambda value: value["replicas"].pop(), "`replicas`"),
    "other seeds": ("curves", lambda value: value["experiment"].update(seeds=[3]), "`replicas`"),
    "a choice that was not trained": ("curves", lambda value: value["choice"].update(lr=0.7), "the chosen `lr`"),
    "tests without a choice": ("curves", lambda value: value.update(choice=None), "without a chosen step size"),
    "a late divergence": ("curves", lambda value: value["replicas"][0].update(diverged_at=99), "diverged_at"),
    "a late best": ("curves", lambda value: value["replicas"][0].update(best_at=3), "best_at"),
    "steps in disorder": ("curves", lambda value: value["learning_curve"].update(step=[0, 2, 1]), "must ascend"),
    "scores of a replica less": ("curves", lambda value: value["learning_curve"]["score"][1].pop(), "4 scores"),
    "negative seconds": ("curves", lambda value: value["learning_curve"].update(seconds=[0, -1, 2]), "at least 0"),
    "no seed": (
        "images",
        lambda value: value["test"][0].update(per_seed=[], per_task=[[], []]),
        "`per_seed` must have 2",
    ),
    "no measure": (
        "images",
        lambda value: value["test"][0].update(
            columns=[], mean=[], ci95_seeds=[], ci95_tasks=[], per_seed=[[], []], per_task=[]
        ),
        "`columns`",
    ),
    "a measure twice": ("images", lambda value: value["test"][0].update(columns=["a", "a"]), "each measure once"),
    "a long measure": ("images", lambda value: value["test"][0].update(columns=["a", "b" * 5000]), "100 characters"),
    "no shots": ("images", lambda value: value["test"][0].update(shots=0), "at least 1"),
    "a negative interval": ("images", lambda value: value["test"][0].update(ci95_seeds=[-1, 0]), "half-width"),
    "a shorter truth": ("curves", lambda value: value["snapshots"][0]["truth"].pop(), "one value for each `x`"),
    "a shorter curve": ("curves", lambda value: value["snapshots"][0]["curves"][0][1].pop(), "one value for each `x`"),
    "a curve less": ("curves", lambda value: value["snapshots"][0]["curves"][0].pop(), "2 curves of each"),
    "curves of one replica": ("curves", lambda value: value["snapshots"][0]["curves"].pop(), "every replica"),
    "support without y": ("curves", lambda value: value["snapshots"][0]["support"].pop(), "`support`"),
    "a late snapshot": ("curves", lambda value: value["snapshots"][0].update(step=3), "step of a snapshot"),
}


def copied(source: Path, target: Path, change: Change) -> Path:
    """A copy of a run with a changed result, whose checksum fits; returns the file."""
    shutil.copytree(source, target)
    file = target / "result.json"
    value = json.loads(file.read_text())
    change(value)
    file.write_bytes(signed(json.dumps(value).encode()))
    return file


@pytest.mark.parametrize("name", CONTRADICTIONS)
def test_a_contradiction_is_refused_in_one_line(finished: dict[str, Path], tmp_path: Path, name: str) -> None:
    source, change, problem = CONTRADICTIONS[name]
    file = copied(finished[source], tmp_path / "run", change)
    with pytest.raises(RunError, match="cannot be understood") as refused:
        read_result(file)
    assert problem in str(refused.value)
    assert len(str(refused.value).splitlines()) == 1
    assert len(str(refused.value)) < 500


@pytest.mark.parametrize("name", ["curves", "images"])
@pytest.mark.parametrize("changes", [{}, {"seconds": 1.0}, {"format": 2}])
def test_a_result_of_this_version_needs_its_checksum(
    finished: dict[str, Path], tmp_path: Path, name: str, changes: dict[str, Any]
) -> None:
    file = copied(finished[name], tmp_path / "run", lambda value: None)
    assert read_result(file) == read_result(finished[name] / "result.json")
    value = json.loads(file.read_text()) | changes
    del value["checksum"]
    file.write_text(json.dumps(value))
    with pytest.raises(RunError, match=r"result\.json (is damaged: its checksum is missing|cannot be understood)"):
        read_result(file)


def test_a_changed_result_is_refused_by_its_checksum(finished: dict[str, Path], tmp_path: Path) -> None:
    shutil.copytree(finished["images"], tmp_path / "run")
    file = tmp_path / "run" / "result.json"
    value = json.loads(file.read_text())
    value["test"][0]["mean"][0] = 0.125
    file.write_text(json.dumps(value))
    with pytest.raises(RunError, match=r"result\.json is damaged: its checksum is wrong"):
        read_result(file)
    with pytest.raises(RunError, match=r"result\.json is damaged: its checksum is wrong"):
        run(IMAGES, tmp_path / "run")


def other_seeds(value: dict[str, Any]) -> None:
    value["experiment"]["seeds"] = [7, 8]
    for replica in value["replicas"]:
        replica["seed"] += 4


def test_the_result_of_other_seeds_is_refused(finished: dict[str, Path], tmp_path: Path) -> None:
    file = copied(finished["images"], tmp_path / "run", other_seeds)
    for read in (partial(read_result, file), partial(run, IMAGES, tmp_path / "run")):
        with pytest.raises(RunError, match=r"another experiment: seeds is \[7, 8\] in the result and \[3, 4\] in this"):
            read()
    (tmp_path / "run" / "config.json").unlink()
    assert read_result(file).experiment.seeds == (7, 8)
