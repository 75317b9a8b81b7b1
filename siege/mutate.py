"""Random damage: to bytes, to JSON values, to files."""

import json
import random
import shutil
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

from eigen_reptile.runtime.checksums import NAME as CHECKSUM, with_checksum

LARGEST_BLOCK = 4096
NUMBERS = (
    0, 1, 2, 127, 128, 255, 256, 2**15, 2**16 - 1, 2**16, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**63, 2**64 - 1,
)  # fmt: skip
ODD_VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**63, 10**400, 1e308, -0.0, 0.5, "", "a", "0", "nan", "\x1b[31m", "$x$", "[b]",
    "<script>", "a|b", "../../x", "\ud800", "x" * 3000, [], [[]], {}, {"": None}, [None], [0] * 50, ["a", 1, None],
)  # fmt: skip


def mutated(rng: random.Random, data: bytes) -> bytes:
    """The data with one or a few kinds of damage."""
    for _ in range(1 + int(rng.expovariate(1))):
        data = rng.choice(BYTE_DAMAGES)(rng, data)
    return data


def flip_bits(rng: random.Random, data: bytes) -> bytes:
    damaged = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 8)) if data else 0):
        damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
    return bytes(damaged)


def truncate(rng: random.Random, data: bytes) -> bytes:
    return data[: rng.randrange(len(data))] if data else data


def zero_block(rng: random.Random, data: bytes) -> bytes:
    start, end = _block(rng, data)
    return data[:start] + bytes(end - start) + data[end:]


def remove_block(rng: random.Random, data: bytes) -> bytes:
    start, end = _block(rng, data)
    return data[:start] + data[end:]


def repeat_block(rng: random.Random, data: bytes) -> bytes:
    start, end = _block(rng, data)
    return data[:end] + data[start:end] * rng.choice((1, 1, 2, 20)) + data[end:]


def move_block(rng: random.Random, data: bytes) -> bytes:
    start, end = _block(rng, data)
    left = data[:start] + data[end:]
    place = rng.randint(0, len(left))
    return left[:place] + data[start:end] + left[place:]


def insert_bytes(rng: random.Random, data: bytes) -> bytes:
    place = rng.randint(0, len(data))
    return data[:place] + rng.randbytes(rng.choice((1, 2, 8, 100))) + data[place:]


def write_number(rng: random.Random, data: bytes) -> bytes:
    """A number at which integers overflow, where a length or an offset may be."""
    width = rng.choice((1, 2, 4, 8))
    place = rng.randint(0, max(0, len(data) - width))
    number: int = rng.choice(NUMBERS) % 2 ** (8 * width)
    written = number.to_bytes(width, "little")[:: rng.choice((1, -1))]
    return data[:place] + written + data[place + width :]


BYTE_DAMAGES: tuple[Callable[[random.Random, bytes], bytes], ...] = (
    flip_bits, truncate, zero_block, remove_block, repeat_block, move_block, insert_bytes, write_number,
)  # fmt: skip


def _block(rng: random.Random, data: bytes) -> tuple[int, int]:
    start = rng.randrange(len(data)) if data else 0
    return start, min(len(data), start + int(2 ** rng.uniform(0, LARGEST_BLOCK.bit_length())))


def mutated_json(rng: random.Random, value: Any) -> Any:
    """A JSON value in which a few entries have another value, type or name, or are missing."""
    value = json.loads(json.dumps(value))
    for _ in range(1 + int(rng.expovariate(1))):
        value = _damaged_entry(rng, value)
    return value


def _damaged_entry(rng: random.Random, value: Any) -> Any:
    if not isinstance(value, dict | list) or not value or rng.random() < 0.1:
        return deepcopy(rng.choice(ODD_VALUES))
    keys = list(value) if isinstance(value, dict) else list(range(len(value)))
    key = rng.choice(keys)
    if rng.random() < 0.6:
        value[key] = _damaged_entry(rng, value[key])
        return value
    match rng.randrange(5):
        case 0:
            del value[key]
        case 1:
            value[key] = deepcopy(value[rng.choice(keys)])
        case 2:
            value[key] = [value[key]]
        case 3 if isinstance(value, dict):
            value[rng.choice((f"{key}x", "", "kind", "__class__"))] = value.pop(key)
        case 4 if isinstance(value, list):
            value += deepcopy(value[:: rng.choice((1, -1))])
        case _:
            value[key] = deepcopy(rng.choice(ODD_VALUES))
    return value


def encoded_json(rng: random.Random, value: Any) -> bytes:
    """A damaged JSON file: most are still JSON, some are not."""
    if rng.random() < 0.02:
        depth = rng.choice((10, 1000, 100_000))
        return rng.choice((b"[", b'{"a":')) * depth
    data = json.dumps(mutated_json(rng, value)).encode(errors="surrogatepass")
    return mutated(rng, data) if rng.random() < 0.3 else data


def signed(data: bytes) -> bytes:
    """A JSON object that has a checksum, with the one that fits, so that its entries are read; other data as it is."""
    try:
        value = json.loads(data)
        if not isinstance(value, dict) or CHECKSUM not in value:
            return data
        return json.dumps(with_checksum({name: part for name, part in value.items() if name != CHECKSUM})).encode()
    except (ValueError, RecursionError):
        return data


def damage_file(rng: random.Random, file: Path, others: list[Path]) -> str:
    """Flip bits of a file, cut or zero a part of it, delete it, or swap it with another; what was done."""
    kind = rng.choice(("flipped", "flipped", "truncated", "zeroed", "deleted", *["swapped"] * bool(others)))
    match kind:
        case "deleted":
            file.unlink()
        case "swapped":
            other, aside = rng.choice(others), file.with_name("aside")
            shutil.move(file, aside)
            shutil.move(other, file)
            shutil.move(aside, other)
        case _:
            damage = {"truncated": truncate, "zeroed": zero_block}.get(kind, flip_bits)
            file.write_bytes(damage(rng, file.read_bytes()))
    return kind
