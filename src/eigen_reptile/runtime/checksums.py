"""Checksums of JSON objects, stored in the object itself, so that a changed entry is noticed when it is read."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

NAME = "checksum"


def digest(value: Any) -> str:
    """SHA-256 of a JSON value, which does not depend on the order of keys nor on spaces."""
    canonical = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(canonical.encode()).hexdigest()


def with_checksum(value: Mapping[str, Any]) -> dict[str, Any]:
    return {**value, NAME: digest(value)}


def without_checksum(value: Mapping[str, Any], is_early: bool) -> dict[str, Any]:
    """The object without its checksum; ValueError if that is wrong, or missing and not of an early version."""
    rest = {name: part for name, part in value.items() if name != NAME}
    if NAME not in value and not is_early:
        raise ValueError("its checksum is missing: it was changed after it was written")
    if NAME in value and value[NAME] != digest(rest):
        raise ValueError("its checksum is wrong: it was changed after it was written")
    return rest
