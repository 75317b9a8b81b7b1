"""What a run records about compiled training: every start says whether it worked."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from eigen_reptile.methods import METHODS
from eigen_reptile.nn import Mlp, compiler
from eigen_reptile.runtime.progress import no_progress
from eigen_reptile.training.config import Experiment, MetaConfig
from eigen_reptile.training.evaluate import EvalConfig
from eigen_reptile.training.experiment import run
from interrupted import Interrupted, interrupt_at

EXP = Experiment(
    method=METHODS["reptile"],
    model=Mlp((4,)),
    meta=MetaConfig(steps=6),
    evaluation=EvalConfig(tasks=2, monitor_tasks=2, snapshot_steps=()),
)


def working(function: Callable[..., Any], **settings: object) -> Callable[..., Any]:
    """Stands for a compiler that works; the real one cannot trace the checks of shapes that tests have."""
    return lambda *args: function(*args)


def missing(function: Callable[..., Any], **settings: object) -> Callable[..., Any]:
    def fail(*args: object) -> Any:
        raise RuntimeError("no C++ compiler")

    return fail


def test_a_start_without_a_compiler_is_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Mlp, "compile_from", 1)
    folder = tmp_path / "run"
    for step, found in ((2, working), (4, missing)):
        monkeypatch.setattr(compiler, "compile_function", found)
        with pytest.raises(Interrupted):
            run(EXP, folder, interrupt_at(step, folder), checkpoint_every=1)
    result = run(EXP, folder, no_progress, checkpoint_every=1)
    starts = json.loads((folder / "environment.json").read_text())
    assert [start["compiled"] for start in starts] == [True, False, False]
    assert result.environment.compiled is False
    assert json.loads((folder / "result.json").read_text())["environment"]["compiled"] is False


def test_nothing_is_recorded_if_nothing_was_to_be_compiled(tmp_path: Path) -> None:
    assert run(EXP, tmp_path / "run").environment.compiled is None
