"""JSON that anybody may have written: limits before it is parsed, and types without conversion."""

import contextlib
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from eigen_reptile.errors import RunError
from eigen_reptile.runtime.files import read_json
from eigen_reptile.runtime.strict_json import DEEPEST, parse_json, strict_converter, structured

# Training in another test of this process may have set denormal numbers to flush to zero.
floats = st.floats(allow_nan=False, allow_infinity=False, allow_subnormal=False)
scalars = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | floats
values = st.recursive(
    scalars | st.text(),
    lambda items: st.lists(items) | st.dictionaries(st.text(), items),
    max_leaves=20,
)


@given(values)
@settings(max_examples=100, deadline=None)
def test_what_was_written_is_read(value: Any) -> None:
    assert parse_json(json.dumps(value).encode()) == value
    assert parse_json(json.dumps(value, ensure_ascii=False, indent=1).encode()) == value


@given(st.binary(max_size=40))
@settings(max_examples=300, deadline=None)
def test_other_bytes_are_a_value_error(data: bytes) -> None:
    with contextlib.suppress(ValueError):
        parse_json(data)


@pytest.mark.parametrize("opened", ["[", '{"a":', '[{"a":', "[1,", "[[],"])
@pytest.mark.parametrize("depth", [4 * DEEPEST, 900, 100_000, 2_000_000])
def test_deep_nesting_is_refused_before_it_is_parsed(opened: str, depth: int) -> None:
    closed = {"[": "]", "{": "}"}
    ends = "".join(closed[bracket] for bracket in reversed(opened.replace("[]", "")) if bracket in closed)
    text = opened * depth + "1" + ends * depth
    with pytest.raises(ValueError, match=r"nested far more than|more than .* values|bytes"):
        parse_json(text.encode())


def test_brackets_and_quotes_within_text_are_no_nesting() -> None:
    value = {"a": "[" * 10_000, 'b"\\': '{"' * 10_000, "c": "\\" * 10_001}
    assert parse_json(json.dumps(value).encode()) == value
    shallow: list[Any] = [[[{"a": [[]]}]]] * 1000
    assert parse_json(json.dumps(shallow).encode()) == shallow


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"a": 1, "a": 2}', "the key 'a' twice"),
        ('[{"b": {"c": 1, "d": 2, "c": 3}}]', "the key 'c' twice"),
        ("{" + "".join(f'"{number}": 0, ' for number in range(300_000)) + '"a": 1, "a": 2}', "the key 'a' twice"),
        ("[NaN]", "NaN is not"),
        ('{"a": -Infinity}', "-Infinity is not"),
        ("[" + "1" * 311 + "]", "'1{40}' is too large a number"),
        ("[" + "1," * 5_000_000 + "1]", "more than"),
        ("[" + "{}," * 600_000 + "1]", "more than"),
        (" " * 40_000_000, "bytes"),
        ('"' + '\\"' * 1_000_000, "Unterminated"),
        ("", "Expecting value"),
        ("{", "Expecting"),
        ("\ufeff{}", "BOM|Expecting"),
    ],
    ids=lambda text: text[:20],
)
@pytest.mark.timeout(60)
def test_what_is_not_json_or_too_large_is_a_value_error(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem) as refused:
        parse_json(text.encode())
    assert len(str(refused.value)) < 300


def test_a_file_is_not_read_beyond_the_limit_and_a_pipe_not_at_all(tmp_path: Path) -> None:
    with (tmp_path / "sparse.json").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(RunError, match=r"sparse\.json is too large"):
        read_json(tmp_path / "sparse.json")
    subprocess.run(["mkfifo", str(tmp_path / "pipe.json")], check=True)
    with pytest.raises(RunError, match=r"pipe\.json: it is not a regular file"):
        read_json(tmp_path / "pipe.json")


@dataclass(frozen=True)
class Sample:
    """One field of each type."""

    number: float
    count: int
    name: str
    flag: bool
    rows: tuple[tuple[float | None, ...], ...]
    by_name: dict[str, float]


RIGHT = {"number": 1, "count": 2, "name": "x", "flag": True, "rows": [[1.5, None]], "by_name": {"a": 1.0}}


def test_the_right_types_are_read() -> None:
    assert structured(strict_converter(), RIGHT, Sample) == Sample(1.0, 2, "x", True, ((1.5, None),), {"a": 1.0})


WRONG: dict[str, tuple[Any, ...]] = {
    "number": (None, True, "1", 10**400, float("inf"), float("nan"), [], {}),
    "count": (None, True, 1.0, "1", 2**63, -(2**70), [], {}),
    "name": (None, 1, [], {}, "\ud800", "a\0b", "x" * 1_000_000),
    "flag": (None, 0, 1, "true", []),
    "rows": (None, "ab", {}, [1], ["ab"], [[True]], [["1"]], [[[]]], {"0": [1.0]}),
    "by_name": (None, [], "ab", {"a": None}, {"a": "1"}, {"\0": 1.0}, {"a" * 20_000: 1.0}),
}


@pytest.mark.parametrize(
    ("name", "value"),
    [(name, value) for name, values in WRONG.items() for value in values],
    ids=lambda value: repr(value)[:20],
)
def test_wrong_types_are_one_short_line_that_names_the_place(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=name) as refused:
        structured(strict_converter(), RIGHT | {name: value}, Sample)
    assert len(str(refused.value).splitlines()) == 1
    assert len(str(refused.value)) < 300


MANY = """
import resource, sys
from eigen_reptile.runtime.strict_json import strict_converter, structured
rows = ["x"] * 3_000_000
resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[1]) << 20,) * 2)
try:
    structured(strict_converter(), rows, list[float])
except ValueError as error:
    print(error)
"""


def test_many_wrong_values_do_not_take_memory_for_each() -> None:
    done = subprocess.run([sys.executable, "-c", MANY, "600"], capture_output=True, text=True, timeout=60)
    assert "a finite number was expected, not 'x' @ $[0]" in done.stdout, done.stderr
