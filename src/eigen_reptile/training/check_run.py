"""Whether the folder of a run is as it was written."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from eigen_reptile.errors import ConfigError, DataError, RunError
from eigen_reptile.runtime.environment import read_environments
from eigen_reptile.runtime.run_folder import RunFolder
from eigen_reptile.training.experiment import EXAMPLES, RESULT, read_examples
from eigen_reptile.training.metric_lines import read_metrics
from eigen_reptile.training.saved_result import read_experiment, read_result


def check_run(folder: Path) -> list[str]:
    """What is damaged in the folder of a run, finished or not, one line each; nothing is changed."""
    problems = []
    for check in (_check_config, _check_environment, _check_result, _check_history, _check_examples):
        try:
            problems += check(folder)
        except (ConfigError, DataError, RunError) as error:
            problems.append(str(error))
    return list(dict.fromkeys(problems))


def _check_config(folder: Path) -> list[str]:
    read_experiment(folder / "config.json")
    return []


def _check_environment(folder: Path) -> list[str]:
    return _readable(read_environments, folder / "environment.json")


def _check_result(folder: Path) -> list[str]:
    return _readable(read_result, folder / RESULT)


def _check_history(folder: Path) -> list[str]:
    """The checkpoints, and the metrics up to them and after."""
    run = RunFolder(folder)
    problems = run.damage()
    if not problems:
        read_metrics(run, len(read_experiment(folder / "config.json").replicas))
    return problems


def _check_examples(folder: Path) -> list[str]:
    result = folder / RESULT
    if read_examples(folder) is None and result.exists() and read_result(result).example is not None:
        return [f"{folder / EXAMPLES} is missing: the report cannot show its example task"]
    return []


def _readable(read: Callable[[Path], Any], file: Path) -> list[str]:
    """Read a file that not every run has; an error says what is wrong with it."""
    if file.exists():
        read(file)
    return []
