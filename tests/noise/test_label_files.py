"""The given labels of images are read from CSV and npz files, and checked against the data set."""

import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from eigen_reptile.data import ImageBank
from eigen_reptile.errors import DataError
from eigen_reptile.noise import NoiseConfig, given_labels, noisy_bank
from pixel_bank import NAMES, pixel_bank, write_csv

KNOWN = {"class-00", "class-01", "class-02", "class-30"}
LINES = [
    ["class", "label"],
    ["class-00", "class-00"],
    ["class-00", "class-01"],
    ["class-00", "class-30"],
    ["class-30", "class-00"],
    *[["class-01", "class-01"]] * 3,
    *[["class-02", "class-00"]] * 3,
]
"""Three images of each of three classes, and one of another split."""


def labelled(folder: Path, lines: Sequence[Sequence[object]]) -> NoiseConfig:
    return NoiseConfig("labels", where="bank", file=write_csv(folder, lines))


def test_images_are_stored_under_their_given_labels(tmp_path: Path) -> None:
    bank = ImageBank(np.arange(9, dtype=np.uint8)[:, None, None, None], NAMES[:3], [3, 3, 3])
    noisy = noisy_bank(bank, labelled(tmp_path, LINES), KNOWN)
    assert noisy.sizes.tolist() == [4, 4, 0]
    found = noisy.take(np.arange(noisy.size).reshape(1, 1, -1), [np.random.default_rng(0)])
    # The third image was given a class that is not a training class.
    assert found.x[0, 0, :, 0, 0, 0].tolist() == [0, 6, 7, 8, 1, 3, 4, 5]
    assert found.y[0, 0].tolist() == [0, 0, 0, 0, 1, 1, 1, 1]
    assert found.is_clean[0, 0].tolist() == [True, False, False, False, False, True, True, True]


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        (LINES[:-1], "2 labels for the 3 images of class-02"),
        ([*LINES, ["class-02", "class-77"]], "image 11: the data set has no class named 'class-77'"),
        ([*LINES, ["class-02"]], "line 12: 1 values in 2 columns"),
        ([["class", "given"], *LINES[1:]], r"one column named label \(see `noise\.column`\)"),
    ],
)
def test_files_that_do_not_match_the_data_set_are_rejected(
    tmp_path: Path, lines: Sequence[Sequence[object]], problem: str
) -> None:
    with pytest.raises(DataError, match=problem):
        noisy_bank(pixel_bank(classes=3, each=3), labelled(tmp_path, lines), KNOWN)


def test_discarded_images_are_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    lines = [["class", "label"], ["class-00", "class-01"], ["class-01", "class-30"]]
    found = given_labels(pixel_bank(classes=2, each=1), labelled(tmp_path, lines), KNOWN)
    assert found.tolist() == [1, -1]
    assert "the given labels of 1 of 2 images are classes of other splits" in caplog.text


def test_a_csv_file_written_by_excel_is_read(tmp_path: Path) -> None:
    file = tmp_path / "table.csv"
    file.write_text("\ufeffclass,label\nclass-00,class-01\nclass-01,class-01\n", encoding="utf-8")
    noise = NoiseConfig("labels", where="bank", file=file)
    assert given_labels(pixel_bank(classes=2, each=1), noise, set(NAMES)).tolist() == [1, 1]


def test_given_labels_in_npz_arrays(tmp_path: Path) -> None:
    """As in CIFAR-10N: the arrays of several annotators side by side, with classes as integers."""
    bank = ImageBank(np.zeros((9, 1, 1, 1), dtype=np.uint8), ["0", "1", "2"], [3, 3, 3])
    true = np.repeat(np.arange(3, dtype=np.uint8), 3)
    file = tmp_path / "labels.npz"

    def read(arrays: dict[str, np.ndarray], column: str = "worse_label") -> object:
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]
        noise = NoiseConfig("labels", where="bank", file=file, column=column)
        return given_labels(bank, noise, {"0", "1", "2", "3"}).tolist()

    worse = np.array([0, 1, 3, 1, 1, 1, 0, 2, 2])
    arrays = {"clean_label": true, "aggre_label": true, "worse_label": worse}
    assert read(arrays) == [0, 1, -1, 1, 1, 1, 0, 2, 2]
    assert read(arrays, column="aggre_label") == true.tolist()
    with pytest.raises(DataError, match=r"no array other: set `noise\.column` to one of .*\(.*worse_label.*\)"):
        read(arrays, column="other")
    with pytest.raises(DataError, match="contain integers"):
        read({"clean_label": true, "worse_label": np.array([{}] * 9)})
    with pytest.raises(DataError, match="contain integers"):
        read({"clean_label": true, "worse_label": worse / 2})
    with pytest.raises(DataError, match="8 labels in worse_label for 9 images"):
        read({"clean_label": true, "worse_label": worse[:-1]})
    with pytest.raises(DataError, match="no class named '7'"):
        read({"clean_label": true, "worse_label": np.full(9, 7)})
    with pytest.raises(DataError, match=r"worse_label\.npy claims to have .* more than the 16777216 allowed"):
        read({"clean_label": true, "worse_label": np.zeros(2**21 + 1, dtype=np.int64)})
    file.write_bytes(b"PK nothing")
    with pytest.raises(DataError, match="not a complete zip"):
        given_labels(bank, NoiseConfig("labels", where="bank", file=file), set(bank.names))


@pytest.mark.parametrize(("column", "wrong"), [("aggre_label", 0.09), ("worse_label", 0.40)])
def test_the_labels_of_cifar_10n_have_their_published_rates(column: str, wrong: float, shared: Path) -> None:
    """The published rates are 9.03 and 40.21 %; the file has 6,000 of the 50,000 images."""
    file = shared / "cifar10n" / "labels.npz"
    bank = ImageBank(np.zeros((6000, 1, 1, 1), dtype=np.uint8), [str(number) for number in range(10)], [600] * 10)
    given = given_labels(bank, NoiseConfig("labels", where="bank", file=file, column=column), set(bank.names))
    assert (given != bank.labels).mean() == pytest.approx(wrong, abs=0.02)


def npy(header: bytes, version: bytes = b"\x01\x00") -> bytes:
    size = len(header).to_bytes(2 if version == b"\x01\x00" else 4, "little")
    return b"\x93NUMPY" + version + size + header + bytes(9)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x93NUMPY",
        b"nothing",
        npy(b"not a header"),
        npy(b"{" * 9000),
        npy(b"(" * 9000),
        npy(b"{'descr': '|u1', 'fortran_order': False, 'shape': (2**40,)}"),
        npy(b"{'descr': '|u1', 'fortran_order': False, 'shape': (1099511627776,)}"),
        npy(b"{'descr': '|u1', 'fortran_order': False, 'shape': (-9,)}"),
        npy(b"{'descr': '|u1', 'fortran_order': False, 'shape': 9}"),
        npy(b"{'descr': '|u1', 'fortran_order': False, 'shape': ('9',)}"),
        npy(b"{'descr': '|u1', 'fortran_order': False, 'shape': (3, 3)}"),
        npy(b"{'descr': '|O', 'fortran_order': False, 'shape': (9,)}"),
        npy(b"{'descr': '|S1', 'fortran_order': False, 'shape': (9,)}"),
        npy(b"{'descr': [('a', '|u1')], 'fortran_order': False, 'shape': (9,)}"),
        npy(b"{'descr': [[[[1]]]], 'fortran_order': False, 'shape': (9,)}"),
        npy(b"{'descr': 7, 'fortran_order': False, 'shape': (9,)}"),
        npy(b"{'descr': '|u1', 'fortran_order': False}"),
        npy(b"\xff\xfe{}", b"\x02\x00"),
        npy(b"{}", b"\x09\x09"),
    ],
)
def test_array_with_another_header_is_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "labels.npz"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("clean_label.npy", content)
        archive.writestr("worse_label.npy", content)
    bank = ImageBank(np.zeros((9, 1, 1, 1), dtype=np.uint8), ["0"], [9])
    with pytest.raises(DataError, match=r"labels\.npz, array clean_label: ") as caught:
        given_labels(bank, NoiseConfig("labels", where="bank", file=file, column="worse_label"), {"0"})
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xfe",
        b"class,label\n\x00,\x00\n",
        b'"' + b"x" * 200_000,
        b"class," + b"x" * 100_000 + b"\nclass-00,class-00\n",
        b"class,label\n" + b"y" * 100_000 + b",class-00\n",
        b"class,label\nclass-00\n",
    ],
)
def test_any_csv_file_is_read_or_refused_in_a_short_line(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "labels.csv"
    file.write_bytes(content)
    with pytest.raises(DataError, match=r"labels\.csv") as caught:
        given_labels(pixel_bank(classes=2, each=1), NoiseConfig("labels", where="bank", file=file), set(NAMES))
    assert len(str(caught.value)) < 600


def test_names_of_files_that_cannot_exist_are_refused() -> None:
    for name in ("x" * 5000, "~nobody-of-this-name/labels.csv"):
        with pytest.raises(DataError, match=r"`noise\.file`"):
            given_labels(
                pixel_bank(classes=2, each=1), NoiseConfig("labels", where="bank", file=Path(name)), set(NAMES)
            )
