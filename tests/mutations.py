"""Damage to JSON: every entry of a file replaced, deleted, renamed or repeated."""

import copy
import json
import random
from collections.abc import Iterator, Sequence
from typing import Any

VALUES: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    7,
    0.5,
    1e308,
    2**31,
    2**64,
    10**400,
    "",
    "x",
    "NaN",
    "\ud800",
    "a\0b",
    "x" * 200_000,
    [],
    {},
    [[]],
    [None],
    ["x", 3],
    {"kind": "Reptile"},
    {"": []},
)
LITERALS = ("NaN", "-Infinity", "1e999", "0" * 99 + "1", "[" * 100_000, '{"a":' * 1000)
"""What `json.dumps` does not write."""
Place = tuple[str | int, ...]


def places(value: Any, above: Place = ()) -> Iterator[Place]:
    """The places of all entries; of a list only the first two and the last."""
    if isinstance(value, dict):
        for name, part in value.items():
            yield (*above, name)
            yield from places(part, (*above, name))
    elif isinstance(value, list):
        for number in sorted({0, 1, len(value) - 1} & set(range(len(value)))):
            yield (*above, number)
            yield from places(value[number], (*above, number))


def sample(value: Any, count: int, seed: int = 0) -> Iterator[str]:
    """JSON texts, each with one random change."""
    rng = random.Random(seed)
    found = list(places(value))
    for _ in range(count):
        yield _mutant(value, rng.choice(found), rng.randrange(len(VALUES) + len(LITERALS) + 3))


def _mutant(value: Any, place: Place, change: int) -> str:
    """The text with the change of this number in one place."""
    if change < len(VALUES):
        return json.dumps(_changed(value, place, [VALUES[change]]))
    if change < len(VALUES) + len(LITERALS):
        return json.dumps(_changed(value, place, ["@@"])).replace('"@@"', LITERALS[change - len(VALUES)])
    if change == len(VALUES) + len(LITERALS):
        return json.dumps(_changed(value, place, []))
    if isinstance(place[-1], int):
        return json.dumps(_changed(value, place, [_at(value, place)] * 2))
    renamed = json.dumps(_renamed(value, place))
    twice = change == len(VALUES) + len(LITERALS) + 1
    return renamed.replace(f"{place[-1]}-2", str(place[-1])) if twice else renamed


def _at(value: Any, place: Sequence[str | int]) -> Any:
    for step in place:
        value = value[step]
    return value


def _changed(value: Any, place: Place, instead: Sequence[Any]) -> Any:
    """A copy with no entry, one or several in place of one."""
    changed = copy.deepcopy(value)
    parent = _at(changed, place[:-1])
    if isinstance(place[-1], int):
        parent[place[-1] : place[-1] + 1] = instead
    elif instead:
        parent[place[-1]] = instead[0]
    else:
        del parent[place[-1]]
    return changed


def _renamed(value: Any, place: Place) -> Any:
    """A copy with an entry under a second name."""
    changed = copy.deepcopy(value)
    _at(changed, place[:-1])[f"{place[-1]}-2"] = _at(value, place)
    return changed
