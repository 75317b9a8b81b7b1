"""Omniglot is read from zips like the official ones, and rotated for training."""

from pathlib import Path

import numpy as np
import pytest

from eigen_reptile.data.datasets import omniglot
from eigen_reptile.data.datasets.omniglot import Omniglot, find_omniglot, index_omniglot
from eigen_reptile.data.image_index import ImageIndex, ImageReader
from eigen_reptile.errors import DataError
from image_files import encoded, load_banks, write_zip


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EIGEN_REPTILE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("EIGEN_REPTILE_DATA", str(tmp_path / "data"))


def test_real_omniglot(shared: Path, tmp_path: Path) -> None:
    """All characters are found in zips like the official ones, and some are compared pixel by pixel."""
    with np.load(shared / "omniglot.npz") as packed:
        labels, names = packed["labels"], packed["class_names"].tolist()
        parts, files = packed["class_split"], packed["file_names"].tolist()
        drawn = np.unpackbits(packed["packed"][labels % 40 == 0], axis=1, count=105 * 105).reshape(-1, 105, 105)
    sheets = dict(zip(np.flatnonzero(labels % 40 == 0).tolist(), drawn, strict=True))
    for part in ("background", "evaluation"):
        members = {
            f"images_{part}/{names[label]}/{file.rsplit('/', 1)[-1]}": encoded(sheets[row] == 0)
            if row in sheets
            else b""
            for row, (label, file) in enumerate(zip(labels, files, strict=True))
            if parts[label] == part
        }
        write_zip(tmp_path / "omniglot" / f"images_{part}.zip", members)
    sources = find_omniglot(tmp_path / "omniglot")
    found = index_omniglot(sources, "background").splits
    assert [len(classes) for classes in found.values()] == [813, 151, 659]
    found = index_omniglot(sources, "vinyals").splits
    assert [len(classes) for classes in found.values()] == [1028, 172, 423]
    classes = {name: readers for classes in found.values() for name, readers in classes.items()}
    assert {len(readers) for readers in classes.values()} == {20}
    for label in range(0, len(names), 40):
        own = np.stack([sheets[row] for row in np.flatnonzero(labels == label).tolist()])
        fine = np.repeat(np.repeat(own, 4, axis=1), 4, axis=2) * 255.0
        expected = fine.reshape(20, 28, 15, 28, 15).mean(axis=(2, 4))
        ours = np.stack([read() for read in classes[names[label]]])
        assert np.abs(ours[..., 0] - expected).max() < 0.501
    (tmp_path / "omniglot" / "images_evaluation.zip").unlink()
    with pytest.raises(DataError, match="neither the folder images_evaluation nor"):
        find_omniglot(tmp_path / "omniglot")


@pytest.mark.parametrize("rotations", [True, False])
def test_only_training_characters_are_rotated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rotations: bool) -> None:
    """Three characters in each split take the place of the 1,623 of a complete copy."""
    for part in ("images_background", "images_evaluation"):
        (tmp_path / "omniglot" / part).mkdir(parents=True)
    classes = {name: [ImageReader(lambda: np.zeros((28, 28, 1), np.uint8))] * 2 for name in ("a", "b", "c")}
    index = ImageIndex((28, 28, 1), {"train": classes, "validation": classes, "test": classes})
    monkeypatch.setattr(omniglot, "index_omniglot", lambda sources, split: index)
    banks = load_banks(Omniglot(tmp_path / "omniglot", rotations=rotations))
    assert {split: bank.n_classes for split, bank in banks.items()} == {
        "train": 12 if rotations else 3,
        "validation": 3,
        "test": 3,
    }
