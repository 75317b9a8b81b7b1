"""Results to and from JSON."""

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from eigen_reptile.errors import ConfigError, RunError
from eigen_reptile.runtime.checksums import with_checksum
from eigen_reptile.runtime.environment import Environment
from eigen_reptile.runtime.files import read_json
from eigen_reptile.training.config import Experiment
from eigen_reptile.training.result import (
    Choice,
    LearningCurve,
    ReplicaResult,
    Result,
    Snapshot,
    TestScores,
    TrainingSource,
)
from eigen_reptile.training.saved_result import read_experiment, read_result
from eigen_reptile.training.serialise import to_json

NAN = float("nan")
ENVIRONMENT = Environment("eigen-reptile train", "1", None, "3.11", "2.13", "2.4", "x86_64", 2, "2026-01-01T00:00:00")
RESULT = Result(
    experiment=Experiment(),
    measure="squared error",
    steps=3,
    replicas=(ReplicaResult(1.0, 0, None, 2, (0.5, None)), ReplicaResult(2.0, 0, 1, 0, None)),
    choice=Choice(1.0, 0.5, "upper end of the grid"),
    learning_curve=LearningCurve((0, 2), ((1.0, None), (0.5, None)), (0.0, None)),
    training={"loss": 0.25},
    snapshots=(Snapshot(1, (0.0, 1.0), (2.0, 3.0), ((0.5,), (2.5,)), (((1.0, 2.0),), None)),),
    test=(
        TestScores(
            1, 2, 2, ("a", "b"), (0.5, None), (None, None), (0.1, 0.2), ((0.5, 1.0),), (((1.0, 0.0),), ((1.0, None),))
        ),
    ),
    seconds=1.5,
    environment=ENVIRONMENT,
    trained=TrainingSource(to_json(Experiment()), "abc"),
)

# Training in another test of this process may have set denormal numbers to flush to zero.
number = st.floats(allow_nan=False, allow_infinity=False, allow_subnormal=False)
maybe = st.none() | number
steps = st.integers(0, 10**6)
text = st.text().map(lambda words: words.replace("\0", ""))  # which no file name and no terminal takes


def rows(items: st.SearchStrategy[Any], size: int) -> st.SearchStrategy[list[Any]]:
    return st.lists(items, min_size=size, max_size=size)


@st.composite
def results(draw: st.DrawFn) -> dict[str, Any]:
    """Parts of the JSON of a result."""
    replicas, points, measures, tasks = (draw(st.integers(1, 3)) for _ in range(4))
    later = st.none() | steps
    replica = {"lr": number, "seed": steps, "diverged_at": later, "best_at": later, "validation": rows(maybe, 2)}
    scores = {name: rows(maybe, measures) for name in ("mean", "ci95_seeds", "ci95_tasks")} | {
        "shots": steps,
        "queries": steps,
        "tasks": st.just(tasks),
        "columns": rows(text, measures),
        "per_seed": rows(rows(maybe, measures), replicas),
        "per_task": st.none() | rows(rows(rows(maybe, tasks), replicas), measures),
        "failed": st.none() | rows(rows(steps, measures), replicas),
    }
    curve = {"step": rows(steps, points), "score": rows(rows(maybe, replicas), points), "seconds": rows(maybe, points)}
    choice = {"lr": number, "validation": number, "position": text, "ci95_tasks": maybe}
    parts = {
        "measure": text,
        "steps": steps,
        "replicas": rows(st.fixed_dictionaries(replica), replicas),
        "choice": st.none() | st.fixed_dictionaries(choice),
        "learning_curve": st.fixed_dictionaries(curve),
        "classes": st.none() | st.dictionaries(text, st.dictionaries(text, steps)),
        "training": st.dictionaries(text, number, max_size=3),
        "test": st.none() | rows(st.fixed_dictionaries(scores), 1),
        "seconds": number,
    }
    drawn: dict[str, Any] = draw(st.fixed_dictionaries(parts))
    return drawn


@given(results())
@settings(max_examples=30, deadline=None)
def test_a_result_survives_json(parts: dict[str, Any]) -> None:
    value = RESULT.to_json() | parts
    result = Result.from_json(json.loads(json.dumps(value, allow_nan=False)))
    written = json.loads(json.dumps(result.to_json(), allow_nan=False))
    assert written == json.loads(json.dumps(value))
    assert Result.from_json(written) == result


def test_the_old_name_of_the_position_in_the_grid_is_read() -> None:
    value = RESULT.to_json()
    position = value["choice"].pop("position")
    assert Result.from_json(value | {"choice": value["choice"] | {"bracket": position}}) == RESULT


def test_a_result_with_all_of_its_parts_survives_json() -> None:
    assert Result.from_json(json.loads(json.dumps(RESULT.to_json()))) == RESULT
    scores = RESULT.test_with(1)
    assert scores is not None
    assert RESULT.test_with(5) is None
    assert scores.column("c") is None
    found = scores.column("a")
    assert found is not None
    assert (found.mean, found.ci95_seeds, found.ci95_tasks) == (0.5, None, 0.1)
    assert found.per_seed.tolist() == [0.5]
    assert found.per_task is not None
    assert found.per_task.tolist() == [[1.0, 0.0]]


Change = Callable[[dict[str, Any]], object]
WRONG: list[tuple[Change, str]] = [
    (lambda value: value.update(steps=True), "whole number .* 'True' @ $.steps"),
    (lambda value: value.update(steps="3"), "whole number .* '3' @ $.steps"),
    (lambda value: value.update(steps=3.0), "whole number .* '3.0' @ $.steps"),
    (lambda value: value.update(seconds=NAN), "finite number .* 'nan' @ $.seconds"),
    (lambda value: value.update(seconds=False), "finite number .* 'False' @ $.seconds"),
    (lambda value: value.update(seconds=10**400), "@ $.seconds"),
    (lambda value: value.update(measure=3), "text .* '3' @ $.measure"),
    (lambda value: value.update(replicas={}), "list .* '{}' @ $.replicas"),
    (lambda value: value.update(replicas=[3]), "object .* '3' @ $.replicas[0]"),
    (lambda value: value["replicas"][1].pop("lr"), "missing .* @ $.replicas[1].lr"),
    (lambda value: value["replicas"][1].update(more=1), "unknown fields 'more' @ $.replicas[1]"),
    (lambda value: value["replicas"][0].update(validation=[None, "x"]), "@ $.replicas[0].validation"),
    (lambda value: value.update(choice=[]), "object .* @ $.choice"),
    (lambda value: value["learning_curve"].update(step=[1]), "same length @ $.learning_curve"),
    (lambda value: value.update(training=[]), "object .* @ $.training"),
    (lambda value: value.update(training={"loss": NAN}), "@ $.training['loss']"),
    (lambda value: value["test"][0].update(columns="ab"), "list .* @ $.test[0].columns"),
    (lambda value: value["test"][0].update(mean=[1.0]), "as many scores as measures: 2 @ $.test[0]"),
    (lambda value: value["test"][0].update(per_task=[[[1.0]], [[1.0]]]), "`per_task` .* @ $.test[0]"),
    (lambda value: value["test"][0].update(failed=[]), "`failed` .* @ $.test[0]"),
    (lambda value: value["test"][0].update(failed=[[1]]), "as many scores as measures: 2 @ $.test[0]"),
    (lambda value: value["test"][0].update(failed=[[1, 0.5]]), "whole number .* @ $.test[0].failed"),
    (lambda value: value["snapshots"][0].update(curves=[[["\n"]]]), "@ $.snapshots[0].curves"),
    (lambda value: value.update(experiment=[]), "@ $.experiment"),
    (lambda value: value["experiment"].update(inner={"steps": 0}), "`inner.steps` .* @ $.experiment"),
    (lambda value: value.update(environment=None), "object .* @ $.environment"),
    (lambda value: value["environment"].pop("torch"), "missing .* @ $.environment.torch"),
    (lambda value: value.update(trained={"experiment": [], "theta": 3}), "@ $.trained.experiment"),
    (lambda value: value.pop("steps"), "missing .* @ $.steps"),
    (lambda value: value.update(more=1), "unknown fields 'more' @ $"),
    (lambda value: value.pop("format"), "format 3"),
    (lambda value: value.update(format=99), "format 3"),
]


def pattern(words: str) -> str:
    for character in "$[](){}":
        words = words.replace(character, "\\" + character)
    return words


@pytest.mark.parametrize(("change", "words"), WRONG, ids=[words for _, words in WRONG])
def test_a_broken_result_is_rejected_in_one_line_that_names_the_place(
    change: Change, words: str, tmp_path: Path
) -> None:
    value = json.loads(json.dumps(RESULT.to_json()))
    change(value)
    with pytest.raises(ConfigError, match=pattern(words)) as caught:
        Result.from_json(value)
    assert len(str(caught.value).splitlines()) == 1
    file = tmp_path / "result.json"
    with suppress(ValueError):  # NaN has no checksum, because it is not JSON
        value = with_checksum(value)
    file.write_text(json.dumps(value))
    with pytest.raises(RunError, match=r"result\.json (cannot be understood|is not valid JSON)") as read:
        read_result(file)
    assert len(str(read.value).splitlines()) == 1


garbage = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_subnormal=False) | st.text(max_size=3),
    lambda items: st.lists(items, max_size=3) | st.dictionaries(st.text(max_size=3), items, max_size=3),
    max_leaves=5,
)


def rejection(value: Any) -> str:
    """The message of the ConfigError; empty if the value is accepted."""
    try:
        Result.from_json(value)
    except ConfigError as error:
        return str(error)
    return ""


@given(st.sampled_from(sorted(RESULT.to_json().keys() - {"format"})), garbage, st.sampled_from([2, 3]))
@settings(max_examples=150, deadline=None)
def test_garbage_in_any_part_is_read_or_rejected_but_never_another_error(name: str, value: Any, version: int) -> None:
    broken = RESULT.to_json() | {name: value, "format": version}
    assert len(rejection(broken).splitlines()) <= 1


@given(st.sampled_from(["history", "lanes", "pictures", "training", "training_seconds", "test"]), garbage)
@settings(max_examples=100, deadline=None)
def test_garbage_in_an_old_result_is_rejected_but_never_another_error(name: str, value: Any) -> None:
    old = json.loads((Path(__file__).parent / "old_run" / "result.json").read_text())
    assert len(rejection(old | {name: value}).splitlines()) <= 1


@pytest.mark.parametrize("value", [None, 3, "result", [], [{}]])
def test_other_json_than_an_object_is_rejected(value: Any) -> None:
    with pytest.raises(ConfigError, match="not a result"):
        Result.from_json(value)


@pytest.mark.parametrize("text", ["", "{", "nonsense", "[" * 100_000, '{"a":' * 100_000])
def test_a_file_that_is_not_json_is_a_run_error(text: str, tmp_path: Path) -> None:
    file = tmp_path / "result.json"
    file.write_text(text)
    for read in (read_json, read_result):
        with pytest.raises(RunError, match=r"result\.json is not valid JSON"):
            read(file)
    with pytest.raises(RunError, match="Delete it and repeat the command of the run"):
        read_result(file)
    file.rename(tmp_path / "config.json")
    with pytest.raises(RunError, match="Restore it from a copy, or train again in another folder"):
        read_experiment(tmp_path / "config.json")
    with pytest.raises(RunError, match="cannot read"):
        read_result(tmp_path / "missing.json")
