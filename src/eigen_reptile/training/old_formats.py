"""Names and forms in files of earlier versions, and what they are called now.

Everything that reads a config, a result, a line of metrics or a checkpoint passes it through here first. What does not
have the form of an old file is returned as it is: whoever reads it next reports what is wrong with it.
"""

from collections.abc import Mapping
from typing import Any

RENAMED_STATISTICS = {"share": "explained_variance_ratio", "lanes_alive": "replicas_alive"}
RENAMED_KINDS = {"Selected": "WithSampleSelection", "Robust": "RobustLoss"}
RENAMED_EVALUATION = {"after": "inner_steps", "pictures": "snapshot_steps"}
RENAMED_CHOICE = {"bracket": "position"}
RENAMED_TENSORS = {"memory.": "inner_state."}
WHOLE_SUPPORT = 1000
"""A batch of this size in an evaluation meant the whole support."""

METRIC_KINDS = {"Prototypical", "Gnn", "Ecm", "MixtFsl"}
MAML_KINDS = {"Maml", "Taml", "MetaCurvature", "SparseMaml", "WarpMaml", "Metal", "MetaDropout"}
"""Methods that inherited the fields `order`, `adapts` and `adapts_norms` from MAML."""


def rename_keys(values: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    return {names.get(name, name): value for name, value in values.items()}


def upgrade_experiment(value: Mapping[str, Any]) -> dict[str, Any]:
    """An experiment in its present form; one that has it already is returned unchanged."""
    upgraded = dict(value)
    if isinstance(method := value.get("method"), dict):
        upgraded["method"] = _upgrade_method(method)
    if isinstance(evaluation := value.get("evaluation"), dict):
        upgraded["evaluation"] = rename_keys(evaluation, RENAMED_EVALUATION)
        if "after" in evaluation:
            _mark_whole_supports(value, upgraded)
    return upgraded


def _mark_whole_supports(old: Mapping[str, Any], upgraded: dict[str, Any]) -> None:
    """None for the batch sizes that stood for the whole support."""
    if old["evaluation"].get("batch") == WHOLE_SUPPORT:
        upgraded["evaluation"]["batch"] = None
    inner, task, method = (_object_or_empty(old.get(part)) for part in ("inner", "task", "method"))
    while method.get("kind") == "Robust":
        method = _object_or_empty(method.get("method"))
    batch, way, shots = inner.get("batch"), task.get("way"), task.get("shots")
    if not (isinstance(way, int) and isinstance(shots, int) and batch == way * shots):
        return
    if str(method.get("kind")) in MAML_KINDS | METRIC_KINDS:
        upgraded["inner"] = {**inner, "batch": None}


def _upgrade_method(method: Mapping[str, Any]) -> dict[str, Any]:
    kind = method.get("kind")
    if not isinstance(kind, str):
        return dict(method)
    kind = RENAMED_KINDS.get(kind, kind)
    upgraded = {**method, "kind": kind}
    if isinstance(wrapped := method.get("method"), dict):
        upgraded["method"] = _upgrade_method(wrapped)
    if isinstance(selector := method.get("selector"), dict) and selector.get("unit") == "guess":
        upgraded["selector"] = {**selector, "unit": "chance"}
    return _upgrade_maml(upgraded) if kind in MAML_KINDS and "adapted" not in method else upgraded


def _upgrade_maml(method: Mapping[str, Any]) -> dict[str, Any]:
    """The MAML family by composition, from one class for each relative."""
    kind, strength = method["kind"], method.get("strength")
    frozen = {"WarpMaml": ["warp"], "MetaDropout": ["noise"]}.get(kind, [])
    layers, norms = method.get("adapts", "all"), method.get("adapts_norms", kind == "SparseMaml")
    adapted = {"layers": layers, "norms": norms, "frozen": frozen}
    if kind == "Metal":
        return _without_none({"kind": kind, "copies": method.get("copies"), "adapted": adapted})
    order = method.get("order", 1 if kind == "SparseMaml" else 2)
    if kind == "MetaDropout":
        return _without_none({"kind": kind, "order": order, "samples": method.get("samples"), "adapted": adapted})
    maml = {"kind": "Maml", "order": order, "adapted": adapted}
    if kind == "MetaCurvature":
        maml["transform"] = _without_none({"kind": kind, "largest": method.get("largest")})
    elif kind == "SparseMaml":
        maml["transform"] = _without_none({"kind": "SparseMask", "rate": method.get("mask_rate")})
    elif kind == "WarpMaml":
        maml["objective"] = _without_none({"kind": "WarpedSteps", "strength": strength})
    elif kind == "Taml" and method.get("bias", "entropy") == "entropy":
        samples = method.get("entropy_of")
        maml["objective"] = _without_none({"kind": "EntropyReduction", "samples": samples, "strength": strength})
    elif kind == "Taml":
        measure, samples = method["bias"], method.get("losses_of")
        settings = {"measure": measure, "samples": samples, "strength": strength}
        maml["objective"] = _without_none({"kind": "LossInequality", **settings})
    return maml


def _object_or_empty(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _without_none(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Without what the file did not have, so that it gets the default."""
    return {name: value for name, value in fields.items() if value is not None}


def upgrade_tensors(tensors: Mapping[str, Any]) -> dict[str, Any]:
    """The tensors of a checkpoint under their present names."""
    (old, new), *_ = RENAMED_TENSORS.items()
    return {name.replace(old, new): tensor for name, tensor in tensors.items()}


def upgrade_metrics(line: Mapping[str, Any]) -> dict[str, Any]:
    """A line of metrics under its present names."""
    kind = "snapshot" if line.get("kind") == "picture" else line.get("kind")
    return {**rename_keys(line, RENAMED_STATISTICS), "kind": kind}


def upgrade_result(value: Mapping[str, Any]) -> dict[str, Any]:
    """A result in its present form; one that has it already is returned unchanged."""
    upgraded = dict(value)
    if isinstance(choice := value.get("choice"), dict):
        upgraded["choice"] = rename_keys(choice, RENAMED_CHOICE)
    if value.get("format") != 2 or "lanes" not in value:
        return upgraded
    if isinstance(history := upgraded.pop("history", None), dict):
        steps = history.get("step")
        untimed = [None] * len(steps) if isinstance(steps, list) else []
        upgraded["learning_curve"] = {**history, "seconds": upgraded.pop("training_seconds", untimed)}
    upgraded["replicas"] = upgraded.pop("lanes")
    if isinstance(snapshots := upgraded.pop("pictures", None), list):
        upgraded["snapshots"] = [_without_kind(snapshot) for snapshot in snapshots]
    if isinstance(training := upgraded.setdefault("training", {}), dict):
        upgraded["training"] = rename_keys(training, RENAMED_STATISTICS)
    if isinstance(tests := value.get("test"), list):
        upgraded["test"] = [_with_task_intervals(scores) for scores in tests]
    upgraded["format"] = 3
    return upgraded


def _without_kind(snapshot: Any) -> Any:
    """A snapshot without the key that a line of metrics has in addition."""
    return {name: part for name, part in snapshot.items() if name != "kind"} if isinstance(snapshot, dict) else snapshot


def _with_task_intervals(scores: Any) -> Any:
    """Test scores with an interval over tasks for each measure; the first version had None in place of all of them."""
    if (
        not isinstance(scores, dict)
        or scores.get("ci95_tasks") is not None
        or not isinstance(scores.get("columns"), list)
    ):
        return scores
    return {**scores, "ci95_tasks": [None] * len(scores["columns"])}
