"""The lines of metrics that make up a result: under their present names, and of the right types."""

from dataclasses import dataclass
from typing import Any, final

from eigen_reptile.errors import RunError
from eigen_reptile.runtime.run_folder import RunLog
from eigen_reptile.runtime.strict_json import strict_converter, structured
from eigen_reptile.training.old_formats import upgrade_metrics
from eigen_reptile.training.result import Snapshot


@final
@dataclass(frozen=True)
class _Validation:
    """A point of the learning curve."""

    step: int
    scores: tuple[float | None, ...]
    """Of each replica; None where it has diverged."""
    seconds: float | None = None
    score: float | None = None
    ci95: float | None = None


_KINDS: dict[str, Any] = {"validation": _Validation, "snapshot": Snapshot, "train": dict[str, float]}
_CONVERTER = strict_converter()


def read_metrics(log: RunLog, replicas: int) -> list[dict[str, Any]]:
    """All lines of a run with this number of replicas; RunError if one is not as it was logged."""
    lines = [upgrade_metrics(line) for line in log.metrics()]
    for line in lines:
        try:
            _check(line, replicas)
        except ValueError as error:
            raise RunError(f"the metrics of step {line['step']} in metrics.jsonl are damaged: {error}") from error
    return lines


def _check(line: dict[str, Any], replicas: int) -> None:
    """Raise ValueError if the line has another form than its kind."""
    kind = line["kind"]
    if kind not in _KINDS:
        raise ValueError(f"the kind {kind[:40]!r} is unknown")
    found = structured(_CONVERTER, {name: part for name, part in line.items() if name != "kind"}, _KINDS[kind])
    if isinstance(found, _Validation) and len(found.scores) != replicas:
        raise ValueError(f"there must be {replicas} scores, one for each replica, not {len(found.scores)}")
    if isinstance(found, Snapshot) and len(found.curves) != replicas:
        raise ValueError(f"there must be the curves of {replicas} replicas, not {len(found.curves)}")
