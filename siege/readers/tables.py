"""Files of labels: npz arrays, CSV lists, tables of transitions."""

import io
import random
import struct
import zipfile
from pathlib import Path

import numpy as np

from eigen_reptile.data import ImageBank
from eigen_reptile.errors import DataError
from eigen_reptile.noise.config import NoiseConfig
from eigen_reptile.noise.label_files import read_given_labels
from eigen_reptile.noise.transitions import transition_matrix_from_file
from siege.mutate import mutated
from siege.readers.refusal import outcome_of

CLASSES = ("0", "1", "2")
PER_CLASS = 4
CELLS = (
    "0", "1", "2", "", " ", "-1", "nan", "inf", "1e308", "1e400", "0.333", '"', "a\x00b", "\u0663", "9" * 400, "class",
)  # fmt: skip
HEADERS = (
    "{'descr': '<i8', 'fortran_order': False, 'shape': (12,), }",
    "{'descr': '<i8', 'fortran_order': False, 'shape': (10000000000000,), }",
    "{'descr': '|O', 'fortran_order': False, 'shape': (12,), }",
    "{'descr': [('a', '<i8')], 'fortran_order': False, 'shape': (), }",
    "{'descr': '<U999999999', 'fortran_order': False, 'shape': (12,), }",
    "{'descr': '<i8', 'fortran_order': None, 'shape': 12, }",
    "{'shape': (-12,)}",
    "[1, 2]",
    "5",
    "(" * 300,
    "{**1}",
    "None",
    "x",
    "{'descr': '<i8', 'fortran_order': False, 'shape': (12L,), }",
)


def npz_labels(rng: random.Random, folder: Path) -> str:
    """Arrays whose headers may be anything."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name in ("clean_label", "label"):
            archive.writestr(f"{name}.npy", _array(rng))
    data = stream.getvalue()
    (folder / "labels.npz").write_bytes(mutated(rng, data) if rng.random() < 0.3 else data)
    return _labels(folder / "labels.npz")


def csv_labels(rng: random.Random, folder: Path) -> str:
    rows = [f"{label},{rng.choice(CLASSES)}" for label in CLASSES for _ in range(PER_CLASS)]
    return _labels(_write_csv(rng, folder / "labels.csv", ["class,label", *rows]))


def transitions(rng: random.Random, folder: Path) -> str:
    rows = [",".join((label, *(rng.choice(("1", "3", "0.5")) for _ in CLASSES))) for label in CLASSES]
    file = _write_csv(rng, folder / "matrix.csv", ["," + ",".join(CLASSES), *rows])
    noise = NoiseConfig(kind="matrix", file=file)
    return outcome_of(lambda: transition_matrix_from_file(noise, CLASSES, set(CLASSES)), DataError)


def _labels(file: Path) -> str:
    pixels = np.zeros((len(CLASSES) * PER_CLASS, 2, 2, 1), np.uint8)
    bank = ImageBank(pixels, list(CLASSES), [PER_CLASS] * len(CLASSES))
    noise = NoiseConfig(kind="labels", where="bank", file=file)
    return outcome_of(lambda: read_given_labels(noise, bank, set(CLASSES)), DataError)


def _write_csv(rng: random.Random, file: Path, lines: list[str]) -> Path:
    """The lines with some cells replaced, and perhaps with other damage."""
    table = [line.split(",") for line in lines]
    for _ in range(rng.randrange(4)):
        row = rng.choice(table)
        row[rng.randrange(len(row))] = rng.choice(CELLS)
    if rng.random() < 0.1:
        table.append(table[0] * rng.choice((1, 1000)))
    data = rng.choice(("\n", "\r\n", "\r")).join(",".join(row) for row in table).encode()
    file.write_bytes(mutated(rng, data) if rng.random() < 0.4 else data)
    return file


def _array(rng: random.Random) -> bytes:
    stream = io.BytesIO()
    labels = np.repeat(np.arange(len(CLASSES)), PER_CLASS).astype(rng.choice(("i8", "u1", "f8", "S1", "M8[s]", "c8")))
    np.lib.format.write_array(stream, labels if rng.random() < 0.9 else labels.reshape(2, -1), allow_pickle=False)
    if rng.random() < 0.5:
        return stream.getvalue()
    header = rng.choice(HEADERS).encode("latin1")
    version = rng.choice((b"\x01\x00", b"\x02\x00", b"\x03\x00", b"\x09\x00"))
    length = struct.pack("<H", len(header)) if version[0] == 1 else struct.pack("<I", len(header))
    return b"\x93NUMPY" + version + length + header + labels.tobytes()
