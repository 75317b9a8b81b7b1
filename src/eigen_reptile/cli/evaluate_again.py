"""A folder whose run differs from the requested experiment only in its evaluation: how to evaluate it again."""

from dataclasses import fields
from pathlib import Path
from shlex import quote
from typing import Any

from eigen_reptile.errors import ConfigError, RunError
from eigen_reptile.runtime.run_files import read_config
from eigen_reptile.training.config import Experiment
from eigen_reptile.training.evaluate import EvalConfig
from eigen_reptile.training.serialise import from_json, to_json, with_absolute_paths

OF_TRAINING = ("every", "monitor_tasks", "snapshot_steps")
"""Settings of the evaluation that have no effect after training."""


def check_only_evaluation_differs(folder: Path, experiment: Experiment) -> None:
    """ConfigError that names the command to evaluate what was trained in this folder, if that would be enough."""
    try:
        there = with_absolute_paths(from_json(read_config(folder / "config.json")))
    except (RunError, ConfigError):
        return  # there is no run, or whoever opens the folder reports what is wrong with it
    here = with_absolute_paths(experiment)
    same_training = to_json(there) | {"evaluation": None} == to_json(here) | {"evaluation": None}
    changed = _changed_settings(there.evaluation, here.evaluation)
    if changed and same_training and not set(changed) & set(OF_TRAINING):
        flags = " ".join(_flag(name, value) for name, value in changed.items())
        raise ConfigError(
            f"{folder} belongs to a run with another evaluation. Once its training is finished, evaluate it with these "
            f"settings: eigen-reptile eval {quote(str(folder))} {flags} --out FOLDER"
        )


def _changed_settings(there: EvalConfig, here: EvalConfig) -> dict[str, Any]:
    names = (field.name for field in fields(EvalConfig))
    return {name: getattr(here, name) for name in names if getattr(here, name) != getattr(there, name)}


def _flag(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return f"--evaluation.{'' if value else 'no-'}{name}"
    words = " ".join(map(str, value)) if isinstance(value, tuple) else str(value)
    return f"--evaluation.{name.replace('_', '-')} {words}"
