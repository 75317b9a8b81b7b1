"""Files of earlier versions: a run, every method and every committed result are read as what they are called now."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from eigen_reptile.data import Glyphs, Sine
from eigen_reptile.errors import ConfigError
from eigen_reptile.methods import METHODS, Maml
from eigen_reptile.nn import Mlp
from eigen_reptile.runtime.files import read_json
from eigen_reptile.training.config import Experiment
from eigen_reptile.training.evaluate import EvalConfig
from eigen_reptile.training.experiment import evaluate_run, run
from eigen_reptile.training.old_formats import upgrade_experiment, upgrade_metrics, upgrade_result, upgrade_tensors
from eigen_reptile.training.presets import preset
from eigen_reptile.training.saved_result import read_result
from eigen_reptile.training.serialise import from_json, to_json

HERE = Path(__file__).parent
OLD_RUN = HERE / "old_run"
OLD_METHODS: dict[str, dict[str, Any]] = json.loads((HERE / "old_methods.json").read_text())
RESULTS = Path(__file__).parents[2] / "results"

STANDARD = preset(Sine(), Maml())
SAME = replace(
    STANDARD,
    model=Mlp((4,)),
    meta=replace(STANDARD.meta, steps=4),
    evaluation=EvalConfig(tasks=3, monitor_tasks=2, every=2, shots=(5,), inner_steps=(0, 2), snapshot_steps=(1,)),
    seeds=(0, 1),
    compile="off",
    precision="float64",
)
"""The experiment of the old run, written today."""


def unfinished_copy(folder: Path) -> Path:
    """The old run as it was after its first checkpoint."""
    shutil.copytree(OLD_RUN, folder)
    (folder / "result.json").unlink()
    for file in (folder / "checkpoints").glob("step-000000004.*"):
        file.unlink()
    return folder


def test_the_config_of_an_old_run_is_the_same_experiment_today() -> None:
    assert from_json(read_json(OLD_RUN / "config.json")) == SAME


def test_the_result_of_an_old_run_has_its_numbers() -> None:
    result = read_result(OLD_RUN / "result.json")
    assert (result.experiment, result.measure, result.steps) == (SAME, "squared error", 4)
    assert [(one.lr, one.seed, one.best_at) for one in result.replicas] == [(0.001, 0, 4), (0.001, 1, 4)]
    assert [one.validation for one in result.replicas] == [(4.1235, 3.99013), (4.0813, 3.81027)]
    assert result.choice is not None
    assert (result.choice.lr, result.choice.validation) == (0.001, 3.9002)
    assert result.learning_curve.step == (0, 2, 4)
    assert result.learning_curve.score[2] == (5.66232, 5.45677)
    assert result.learning_curve.seconds == (0.0, 5.39, 5.49)
    assert result.training == {"meta_loss": 6.51, "replicas_alive": 2.0}
    (snapshot,) = result.snapshots
    assert (snapshot.step, len(snapshot.x), len(snapshot.curves)) == (1, 50, 2)
    assert result.test is not None
    assert (result.test[0].shots, result.test[0].queries, result.test[0].tasks) == (5, 50, 3)
    scores = result.test[0].column("2 steps")
    assert scores is not None
    assert (scores.mean, scores.ci95_seeds, scores.ci95_tasks) == (1.41885, 0.867382, 3.15303)
    assert scores.per_seed.tolist() == [1.35058, 1.48711]
    assert scores.per_task is not None
    assert scores.per_task.tolist() == [[2.76, 0.9578, 0.3335], [2.938, 1.004, 0.5198]]
    assert result.environment.version == "0.1.0"
    assert result.trained is None


def test_an_old_run_continues_from_its_checkpoint_to_the_parameters_of_a_new_one(tmp_path: Path) -> None:
    folder = unfinished_copy(tmp_path / "old")
    continued, new = run(SAME, folder), run(SAME, tmp_path / "new")
    ours, theirs, before = (
        load_file(path / "checkpoints" / "step-000000004.safetensors") for path in (folder, tmp_path / "new", OLD_RUN)
    )
    assert ours.keys() == theirs.keys()
    for name, tensor in theirs.items():
        torch.testing.assert_close(ours[name], tensor, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(ours["theta"], before["theta"], rtol=1e-10, atol=1e-12)
    assert continued.learning_curve.step == (0, 2, 4)
    for result in (continued, new):
        old = read_result(OLD_RUN / "result.json")
        np.testing.assert_allclose(
            np.array(result.learning_curve.score, float), np.array(old.learning_curve.score, float), rtol=1e-5
        )
        assert result.test == old.test
        assert result.snapshots == old.snapshots
        assert result.replicas == old.replicas


def test_an_old_run_can_be_evaluated(tmp_path: Path) -> None:
    shutil.copytree(OLD_RUN, tmp_path / "old")
    again = evaluate_run(tmp_path / "old", SAME, tmp_path / "again")
    old = read_result(OLD_RUN / "result.json")
    assert (again.test, again.learning_curve) == (old.test, old.learning_curve)
    assert again.choice is not None
    assert replace(again.choice, ci95_tasks=None) == old.choice  # which has no interval
    assert again.training == old.training
    assert again.trained is not None
    assert again.trained.experiment == to_json(SAME)


def test_an_evaluation_whose_config_lacks_newer_settings_continues(tmp_path: Path) -> None:
    shutil.copytree(OLD_RUN, tmp_path / "old")
    folder = tmp_path / "again"
    first = evaluate_run(tmp_path / "old", SAME, folder)
    config = json.loads((folder / "config.json").read_text())
    for exp in (config, config["trained"]["experiment"]):
        del exp["meta"]["clip"]
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "result.json").unlink()
    assert evaluate_run(tmp_path / "old", SAME, folder).test == first.test
    with pytest.raises(ConfigError, match=r"evaluation\.seed is .* in its config\.json and"):
        evaluate_run(tmp_path / "old", replace(SAME, evaluation=replace(SAME.evaluation, seed=9)), folder)


@pytest.mark.parametrize("name", OLD_METHODS)
def test_the_first_versions_settings_of_a_method_are_its_preset_today(name: str) -> None:
    method, data = name.split(" on ")
    expected = preset({"glyphs": Glyphs(), "sine": Sine()}[data], METHODS[method])
    assert from_json(OLD_METHODS[name]) == expected
    assert upgrade_experiment(to_json(expected)) == to_json(expected)


def test_the_methods_of_the_first_version_are_still_there() -> None:
    assert {name.split(" on ")[0] for name in OLD_METHODS} <= METHODS.keys()
    assert len(OLD_METHODS) == 2 * 33 - 8  # eight methods can only classify


def test_a_robust_maml_on_the_whole_support_has_a_batch_of_none() -> None:
    old = OLD_METHODS["maml on glyphs"]
    wrapped = {"kind": "Robust", "method": old["method"], "q": 0.7}
    upgraded = upgrade_experiment({**old, "method": wrapped})
    assert upgraded["inner"]["batch"] is None
    assert upgraded["method"]["kind"] == "RobustLoss"
    assert upgrade_experiment({**old, "task": {**old["task"], "shots": 5}})["inner"]["batch"] == 5


def test_tensors_and_metrics_get_their_present_names() -> None:
    assert upgrade_tensors({"memory.steps": 1, "best.memory.square": 2, "theta": 3}) == {
        "inner_state.steps": 1,
        "best.inner_state.square": 2,
        "theta": 3,
    }
    train = {"kind": "train", "step": 3, "share": 0.5, "lanes_alive": 2.0}
    assert upgrade_metrics(train) == {
        "kind": "train",
        "step": 3,
        "explained_variance_ratio": 0.5,
        "replicas_alive": 2.0,
    }
    assert upgrade_metrics({"kind": "picture", "step": 3})["kind"] == "snapshot"


def test_files_of_the_present_version_are_not_changed() -> None:
    result = read_result(OLD_RUN / "result.json").to_json()
    assert upgrade_result(result) == result


@pytest.mark.parametrize(
    "file", sorted(RESULTS.rglob("result.json")), ids=lambda file: str(file.parent.relative_to(RESULTS))
)
def test_every_committed_result_is_read(file: Path) -> None:
    raw, result = read_json(file), read_result(file)
    assert isinstance(result.experiment, Experiment)
    assert from_json(read_json(file.with_name("config.json"))) == result.experiment
    assert from_json(to_json(result.experiment)) == result.experiment
    assert len(result.replicas) == len(raw.get("lanes", raw.get("replicas")))
    assert [list(scores.mean) for scores in result.test or ()] == [scores["mean"] for scores in raw["test"] or ()]
    assert len(result.learning_curve.step) == len(result.learning_curve.seconds)
    assert not {"share", "lanes_alive"} & result.training.keys()
