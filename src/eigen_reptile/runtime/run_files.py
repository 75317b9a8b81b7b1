"""The config and the result in the folder of a run: reading them says what to do if they are damaged."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from eigen_reptile.errors import ConfigError, RunError
from eigen_reptile.runtime.checksums import without_checksum
from eigen_reptile.runtime.files import differences, read_json, sync_folder, write_json

RESULT_FORMAT = 3
"""Of results; those of earlier formats have no checksum."""
REPAIR = "Delete it and repeat the command of the run, which evaluates again what was trained"
RESTORE = "Restore it from a copy, or train again in another folder"


def read_result_file(file: Path) -> dict[str, Any]:
    """The JSON object of a result without its checksum; RunError if it is damaged."""
    value = _read_json(file, REPAIR)
    if not isinstance(value, dict):
        raise RunError(f"{file} is not a result: it is not a JSON object. {REPAIR}")
    try:
        return without_checksum(value, is_early=value.get("format") != RESULT_FORMAT)
    except ValueError as error:
        raise RunError(f"{file} is damaged: {error}. {REPAIR}") from error


def read_config(file: Path) -> Any:
    """The config of a run; RunError if it is damaged."""
    return _read_json(file, RESTORE)


def _read_json(file: Path, advice: str) -> Any:
    try:
        return read_json(file)
    except RunError as error:
        raise RunError(f"{error}. {advice}" if file.exists() else str(error)) from error


def save_or_check_config(path: Path, config: Mapping[str, Any], upgrade: Callable[[Any], Any]) -> None:
    """Save the config in an empty folder; in the folder of a run, check that it is the same.

    What killed processes have left half written is deleted: only this one writes here now.
    """
    for leftover in (*path.glob(".*.tmp"), *path.glob("checkpoints/.*.tmp")):
        leftover.unlink(missing_ok=True)
    file = path / "config.json"
    if not file.exists():
        if any(not entry.name.startswith(".") for entry in path.iterdir()):
            raise ConfigError(f"{path} is not empty and not the folder of a run: choose another folder")
        write_json(file, config)
    elif different := _differences(path, config, read_config(file), upgrade):
        raise ConfigError(f"{path} belongs to another experiment: {'; '.join(different)}. Choose another folder.")
    (path / "checkpoints").mkdir(exist_ok=True)
    sync_folder(path)


def _differences(path: Path, config: Mapping[str, Any], saved: Any, upgrade: Callable[[Any], Any]) -> list[str]:
    """The settings in which the saved config differs, one line each."""
    if saved == config:
        return []
    try:
        return differences(upgrade(saved), config, ("its config.json", "this experiment"))
    except ValueError as error:
        raise ConfigError(f"the experiment in {path} cannot be read: {error}. Choose another folder.") from error
