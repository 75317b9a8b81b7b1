"""Lanes side by side: as good as alone, and a diverging one disturbs no other; the choice and the summary."""

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch
from scipy import stats
from torch import Tensor

from eigen_reptile.cli import run
from eigen_reptile.config import Experiment, MetaConfig
from eigen_reptile.environment import command
from eigen_reptile.evaluate import EvalConfig, Scores
from eigen_reptile.experiment import run_experiment
from eigen_reptile.files import RunError
from eigen_reptile.methods import METHODS, Proposal
from eigen_reptile.progress import Report, silent
from eigen_reptile.result import choose, summarise
from eigen_reptile.stage import prepare
from eigen_reptile.state import TrainState
from eigen_reptile.train import training_data, training_data_from

SMALL = Experiment(
    meta=MetaConfig(steps=12, lr=(0.5,)),
    evaluation=EvalConfig(tasks=3, monitor_tasks=2, every=6, shots=(3,), after=(0, 2), pictures=(1,)),
    compile="off",
)


def final_theta(exp: Experiment, folder: Path) -> Tensor:
    run_experiment(exp, folder)
    return safetensors.torch.load_file(folder / "checkpoints" / f"step-{exp.meta.steps:09d}.safetensors")["theta"]


def test_lanes_train_side_by_side_as_they_would_alone(tmp_path: Path) -> None:
    together = replace(SMALL, meta=replace(SMALL.meta, lr=(0.3, 0.5)), seeds=(1, 2))
    theta = final_theta(together, tmp_path / "together")
    for number, lane in enumerate(together.lanes):
        alone = replace(SMALL, meta=replace(SMALL.meta, lr=(lane.lr,)), seeds=(lane.seed,))
        torch.testing.assert_close(theta[number], final_theta(alone, tmp_path / str(number))[0], rtol=1e-4, atol=1e-6)


def test_a_diverging_lane_is_recorded_and_disturbs_no_other(tmp_path: Path) -> None:
    wild = replace(SMALL, meta=replace(SMALL.meta, lr=(0.5, 1e12)), seeds=(1, 2))
    result = run_experiment(wild, tmp_path / "wild")
    assert [lane["diverged_at"] is None for lane in result["lanes"]] == [True, True, False, False]
    assert all(1 <= lane["diverged_at"] <= 12 for lane in result["lanes"][2:])
    assert result["choice"]["lr"] == 0.5
    tame = replace(wild, meta=SMALL.meta)
    theta = safetensors.torch.load_file(tmp_path / "wild" / "checkpoints" / "step-000000012.safetensors")["theta"]
    assert theta.isfinite().all()
    torch.testing.assert_close(theta[:2], final_theta(tame, tmp_path / "tame"), rtol=1e-4, atol=1e-6)


def test_if_all_lanes_diverge_training_stops_and_says_so(tmp_path: Path) -> None:
    wild = replace(SMALL, meta=replace(SMALL.meta, steps=1000, lr=(1e12,)))
    told: dict[str, int] = {}

    def announce(name: str, total: int) -> Report:
        return lambda done, numbers: told.update({name: done})

    result = run_experiment(wild, tmp_path, announce)
    assert result["test"] is result["choice"] is None
    assert told[tmp_path.name] == result["steps"] == result["lanes"][0]["diverged_at"] < 100


def test_a_diverged_lane_stays_where_it_was() -> None:
    state = TrainState.fresh(prepare(replace(SMALL, seeds=(0, 1)), silent, "cpu"))
    direction = torch.ones_like(state.theta)
    direction[1, 5] = float("nan")
    rates, meta = torch.tensor([0.5, 0.5]), SMALL.meta
    after = state.advance(Proposal(direction, torch.ones(2), state.memory, {}), rates, meta)
    assert torch.equal(after.theta[0], state.theta[0] + 0.5)
    assert torch.equal(after.theta[1], state.theta[1])
    assert after.diverged_at.tolist() == [-1, 1]
    later = after.advance(Proposal(torch.ones_like(direction), torch.ones(2), state.memory, {}), rates, meta)
    assert torch.equal(later.theta[1], state.theta[1])
    assert later.diverged_at.tolist() == [-1, 1]


def test_the_outer_adam_is_torchs() -> None:
    meta = replace(SMALL.meta, optimizer="adam", clip=0.5, batch=1)
    state = TrainState.fresh(prepare(replace(SMALL, meta=meta, seeds=(0, 1)), silent, "cpu"))
    theirs = state.theta.clone().requires_grad_()
    adam = torch.optim.Adam([theirs], lr=0.1)
    generator = torch.Generator().manual_seed(0)
    for _ in range(5):
        direction = torch.randn(state.theta.shape, generator=generator)
        theirs.grad = -direction.clamp(-0.5, 0.5)
        adam.step()
        state = state.advance(Proposal(direction, torch.ones(2), state.memory, {}), torch.full((2,), 0.1), meta)
    torch.testing.assert_close(state.theta, theirs.detach())
    again = state.restored(5, state.tensors())
    assert torch.equal(again.outer.first, state.outer.first)
    assert torch.equal(again.outer.second, state.outer.second)


def test_a_checkpoint_of_something_else_is_refused() -> None:
    state = TrainState.fresh(prepare(replace(SMALL, seeds=(0, 1)), silent, "cpu"))
    assert torch.equal(state.restored(7, state.tensors()).theta, state.theta)
    for wrong in (state.tensors() | {"theta": state.theta[:1]}, {"theta": state.theta}):
        with pytest.raises(RunError, match="step 7 has other parameters"):
            state.restored(7, wrong)


def test_every_method_and_step_size_sees_the_same_tasks_and_batches() -> None:
    one = replace(SMALL, method=METHODS["reptile"], seeds=(4,))
    many = replace(SMALL, method=METHODS["eigen-reptile"], meta=replace(SMALL.meta, lr=(0.1, 0.2)), seeds=(3, 4))
    few, many_lanes = (training_data(prepare(exp, silent, "cpu"), 7) for exp in (one, many))
    for part, whole in zip((*few[0], *few[1]), (*many_lanes[0], *many_lanes[1]), strict=True):
        assert torch.equal(part[0], whole[1])
        assert torch.equal(part[0], whole[3])
    assert not torch.equal(many_lanes[0].y[0], many_lanes[0].y[1])
    assert not torch.equal(many_lanes[1].chosen[0], many_lanes[1].chosen[1])


@pytest.mark.parametrize("lr", [(0.1,), (0.1, 0.2)])
def test_what_is_drawn_ahead_is_what_each_step_would_draw_itself(
    lr: tuple[float, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eigen_reptile.train.AHEAD_BYTES", 50_000)
    stage = prepare(replace(SMALL, meta=replace(SMALL.meta, lr=lr), seeds=(3, 4)), silent, "cpu")
    data = training_data_from(stage, 7)
    for step in range(7, 7 + 20):
        for ahead, own in zip(next(data), training_data(stage, step), strict=True):
            for found, expected in zip(ahead, own, strict=True):
                assert torch.equal(found, expected)


@pytest.mark.parametrize(
    ("errors", "lr", "bracket"),
    [
        ({0.1: 3.0, 0.2: 1.0, 0.5: 2.0}, 0.2, "inside the grid"),
        ({0.1: 3.0, 0.2: 1.0, 0.5: None}, 0.2, "the next step size diverges"),
        ({0.1: 3.0, 0.2: 1.0}, 0.2, "upper end of the grid"),
        ({0.1: 0.5, 0.2: 1.0}, 0.1, "lower end of the grid"),
        ({0.1: 0.5}, 0.1, "only one step size"),
    ],
)
def test_choice_among_step_sizes(errors: dict[float, float | None], lr: float, bracket: str) -> None:
    accuracies = {rate: None if error is None else -error for rate, error in errors.items()}
    for scores, higher_is_better in ((errors, False), (accuracies, True)):
        choice = choose(scores, higher_is_better)
        assert choice is not None
        assert (choice["lr"], choice["bracket"]) == (lr, bracket)
        assert choice["validation"] == scores[lr]


def test_no_choice_if_all_diverge() -> None:
    assert choose({0.1: None, 0.2: None}, higher_is_better=False) is None


def test_a_summary_is_means_and_students_intervals() -> None:
    values = np.random.default_rng(0).random((3, 5, 2))
    found = summarise(Scores(("inductive", "transductive"), values))
    assert found["columns"] == ["inductive", "transductive"]
    for column in range(2):
        seeds, tasks = values[:, :, column].mean(1), values[:, :, column].mean(0)
        assert found["mean"][column] == pytest.approx(seeds.mean(), rel=1e-5)
        assert [row[column] for row in found["per_seed"]] == pytest.approx(seeds, rel=1e-5)
        for name, some in (("ci95_seeds", seeds), ("ci95_tasks", tasks)):
            low, high = stats.t.interval(0.95, len(some) - 1, loc=0, scale=stats.sem(some))
            assert found[name][column] == pytest.approx((high - low) / 2, rel=1e-5)
        np.testing.assert_allclose(found["per_task"][column], values[:, :, column], rtol=1e-3)
    assert summarise(Scores(("inductive",), values[:1, :, :1]))["ci95_seeds"] == [None]


def test_the_command_that_is_kept_names_no_folder_of_the_machine() -> None:
    words = ["/home/ann/bin/eigen-reptile", "run", "noisy", "--out", "/data/runs/noisy", "--data=/data/pictures", "a/b"]
    assert command(words) == "eigen-reptile run noisy --out noisy --data=pictures a/b"
    assert command(["/lib/eigen_reptile/__main__.py", "list"]) == "python -m eigen_reptile list"  # as it was typed


@pytest.mark.skipif(not any(map(shutil.which, ("c++", "g++", "clang++"))), reason="compiling needs a C++ compiler")
def test_compiled_training_agrees_with_plain(tmp_path: Path) -> None:
    # In a process of its own, without the type checks of the tests, which do not compile; and in only one, because to
    # start more takes longer than to compile this little.
    program, environment = Path(sys.executable).parent / "eigen-reptile", {"TORCHINDUCTOR_COMPILE_THREADS": "1"}
    settings = "--meta.steps 20 --inner.steps 3 --model.hidden 8 --seeds 0 1 --evaluation.tasks 2"
    words = f"train eigen-reptile --quiet --evaluation.monitor-tasks 2 {settings}".split()
    compiled, plain = ([*words, "--compile", how, "--out", str(tmp_path / how)] for how in ("on", "off"))
    subprocess.run([program, *compiled], env=os.environ | environment, check=True)
    assert run(plain) == 0
    ours, theirs = (
        safetensors.torch.load_file(tmp_path / how / "checkpoints" / "step-000000020.safetensors")["theta"]
        for how in ("on", "off")
    )
    torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-5)
