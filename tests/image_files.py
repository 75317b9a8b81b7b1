"""Write image data sets to disk in all their layouts, and load them, for the tests of data sets."""

import io
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from PIL import Image

from eigen_reptile.data.bank import Split
from eigen_reptile.data.image_bank import ImageBank
from eigen_reptile.data.image_dataset import ImageDataset
from eigen_reptile.data.io.cache import SPLITS
from eigen_reptile.runtime.progress import no_progress


def load_banks(data: ImageDataset) -> dict[Split, ImageBank]:
    banks = data.load(no_progress)
    assert all(isinstance(bank, ImageBank) for bank in banks)
    return dict(zip(SPLITS, banks, strict=True))  # type: ignore[arg-type]


def images_of(bank: ImageBank, name: str) -> np.ndarray:
    """The images of a class."""
    label = bank.names.index(name)
    start = int(bank.sizes[:label].sum())
    return bank.pixels[start : start + int(bank.sizes[label])]


def encoded(pixels: np.ndarray, kind: str = "PNG") -> bytes:
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, kind)
    return stream.getvalue()


def write_files(folder: Path, files: Mapping[str, bytes]) -> Path:
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    return folder


def write_zip(file: Path, files: Mapping[str, bytes]) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(file, "w") as archive:
        for path, content in files.items():
            archive.writestr(path, content)
    return file


def write_tar(file: Path, files: Mapping[str, bytes], level: int = 1) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(file, "w:gz", compresslevel=level) as archive:
        for path, content in files.items():
            member = tarfile.TarInfo(path)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return file
