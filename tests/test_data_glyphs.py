"""Glyphs: characters that differ, drawn the same each time, once."""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from matplotlib.ft2font import FT2Font
from PIL import Image, ImageFont, ImageOps

from eigen_reptile.data.bank import Banks, DataError, TaskShape
from eigen_reptile.data.glyphs import FACES, Glyphs, _characters
from eigen_reptile.data.images import ImageBank
from eigen_reptile.progress import Report, silent

pytestmark = pytest.mark.xdist_group("data_glyphs")  # what they share is made once

TTF = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
GLYPHS = Glyphs(size=20, per_class=12)
DEJAVU_SANS = {f"U+{code:04X}" for code in FT2Font(str(TTF / "DejaVuSans.ttf")).get_charmap()}


def images(banks: Banks) -> list[ImageBank]:
    assert all(isinstance(bank, ImageBank) for bank in banks)
    return [bank for bank in banks if isinstance(bank, ImageBank)]


def pixels_of(banks: Banks) -> list[bytes]:
    return [bank.pixels.tobytes() for bank in images(banks)]


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("cache")
        patch.setenv("EIGEN_REPTILE_CACHE", str(folder))
        yield folder


@pytest.fixture(scope="module")
def banks(cache: Path) -> Banks:
    """Drawn from all faces; the tests of how it is made use fewer, which is quicker."""
    return GLYPHS.load(silent)


@pytest.fixture
def few_fonts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A matplotlib with four faces only, and a cache of its own."""
    folder = tmp_path / "data" / "fonts" / "ttf"
    folder.mkdir(parents=True)
    for style in ("", "Bol", "Italic", "BolIta"):
        shutil.copy(TTF / f"STIXGeneral{style}.ttf", folder)
    monkeypatch.setattr(matplotlib, "get_data_path", lambda: str(tmp_path / "data"))
    monkeypatch.setenv("EIGEN_REPTILE_CACHE", str(tmp_path / "cache"))
    return folder


def by_class(bank: ImageBank) -> np.ndarray:
    """Pictures as vectors: (class, picture, pixel)."""
    return np.asarray(bank.pixels, dtype=np.float64).reshape(len(bank.names), GLYPHS.per_class, -1)


def test_splits_share_no_class_and_have_their_parts(banks: Banks) -> None:
    names = [name for bank in images(banks) for name in bank.names]
    assert len(names) == len(set(names)) > 500
    shares = np.array([len(bank.names) for bank in images(banks)]) / len(names)
    np.testing.assert_allclose(shares, [0.64, 0.16, 0.2], atol=0.002)
    assert {name.split()[1] for name in names} >= {"LATIN", "GREEK", "CYRILLIC", "ARABIC", "GEORGIAN", "TIFINAGH"}


def test_pictures_are_white_on_black_with_a_margin(banks: Banks) -> None:
    for bank in images(banks):
        assert bank.shape == (1, 20, 20)
        assert bank.sizes.tolist() == [12] * len(bank.names)
        pictures = by_class(bank)
        assert pictures.max(axis=-1).min() > 100, "a blank picture"
        assert pictures.mean() < 60
        border = pictures.reshape(-1, 20, 20)[:, [0, -1]]
        assert np.mean(border > 100) < 0.01


@pytest.mark.parametrize(
    ("first", "others"),
    [("A", "\u0391\u0410"), ("C", "c\u0421\u0441"), ("0", "Oo\u039f\u043e\u0555"), ("X", "x\u0425")],
)
def test_look_alikes_are_one_class(banks: Banks, first: str, others: str) -> None:
    codes = {name.split()[0] for bank in images(banks) for name in bank.names}
    assert f"U+{ord(first):04X}" in codes
    assert not codes & {f"U+{ord(other):04X}" for other in others}


def drawings(names: Sequence[str], side: int) -> np.ndarray:
    """The characters of DejaVu Sans, each alone and scaled to a square: (name, side, side)."""
    face = ImageFont.truetype(TTF / "DejaVuSans.ttf", 60, layout_engine=ImageFont.Layout.BASIC)
    masks = [face.getmask(chr(int(name.split()[0].removeprefix("U+"), 16))) for name in names]
    inks = [Image.frombytes("L", mask.size, bytes(mask)) for mask in masks]
    return np.stack([np.asarray(ImageOps.pad(ink.crop(ink.getbbox()), (side, side)), np.float64) for ink in inks])


def test_no_two_classes_look_alike(banks: Banks) -> None:
    """Plain correlation of plain drawings: a double has 1, X and x have 0.91."""
    names = [name for bank in images(banks) for name in bank.names]
    names = [name for name in names if name.split()[0] in DEJAVU_SANS]
    likeness = np.corrcoef(drawings(names, 20).reshape(len(names), -1))
    between = likeness[np.triu_indices(len(names), 1)]
    assert between.max() < 0.97
    assert np.sum(between > 0.9) < 10


def test_pictures_show_what_the_name_says(banks: Banks) -> None:
    """Of nearly six hundred mean pictures, the one most like a plain drawing is mostly that of its class."""
    bank = images(banks)[0]
    here = [number for number, name in enumerate(bank.names) if name.split()[0] in DEJAVU_SANS]
    plain = np.pad(drawings([bank.names[number] for number in here], 14), ((0, 0), (3, 3), (3, 3)))
    means = by_class(bank)[here].mean(axis=1)
    likeness = np.corrcoef(plain.reshape(len(here), -1), means)[: len(here), len(here) :]
    assert np.mean(likeness.argmax(axis=1) == np.arange(len(here))) > 0.6


def test_few_shots_tell_classes_apart_but_not_at_once(banks: Banks) -> None:
    def accuracy(shots: int) -> float:
        samples = banks.test.draw(300, TaskShape(5, shots, 5), [np.random.default_rng(0)])
        centres = samples.x[0].reshape(300, 5, shots, -1).mean(axis=2)
        centres /= np.linalg.norm(centres, axis=-1, keepdims=True)
        scores = samples.query_x[0].reshape(300, 25, -1) @ centres.transpose(0, 2, 1)
        return float(np.mean(scores.argmax(axis=-1) == samples.query_y[0]))

    assert 0.5 < accuracy(1) < 0.8
    assert accuracy(5) > 0.75


@pytest.mark.parametrize("name", FACES[::4])
def test_the_box_for_missing_characters_is_never_drawn(name: str) -> None:
    face = ImageFont.truetype(TTF / name, 32, layout_engine=ImageFont.Layout.BASIC)
    box = bytes(face.getmask("\uffff"))
    characters = _characters(TTF / name)
    assert len(characters) > 200
    assert not [character for character in characters if bytes(face.getmask(character)) == box]


def test_a_character_fills_its_square() -> None:
    square = np.asarray(_characters(TTF / "DejaVuSerif.ttf")["T"]) > 100
    rows, columns = np.flatnonzero(square.any(axis=1)), np.flatnonzero(square.any(axis=0))
    assert rows[0] <= 1
    assert rows[-1] >= 62
    assert abs(columns[0] + columns[-1] - 63) <= 2


def test_made_once_and_the_same_anywhere(few_fonts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    progress: list[tuple[str, int, int]] = []

    def announce(name: str, total: int) -> Report:
        def report(done: int, numbers: Mapping[str, float]) -> None:
            progress.append((name, done, total))

        return report

    settings = Glyphs(size=12, per_class=3)
    made = settings.load(announce)
    classes = sum(len(bank.names) for bank in images(made))
    assert progress == [("making glyphs", done + 1, classes) for done in range(classes)]

    again = settings.load(announce)
    assert len(progress) == classes, "the second load has drawn"
    assert pixels_of(again) == pixels_of(made)
    assert [bank.names for bank in images(again)] == [bank.names for bank in images(made)]

    monkeypatch.setenv("EIGEN_REPTILE_CACHE", str(few_fonts / "other"))
    assert pixels_of(settings.load(announce)) == pixels_of(made)
    assert len(progress) == 2 * classes


def test_the_seed_moves_classes_and_pictures_but_not_what_is_a_class(few_fonts: Path) -> None:
    first, second = (images(Glyphs(size=12, per_class=3, seed=seed).load(silent)) for seed in (0, 1))
    assert first[0].names != second[0].names
    assert {name for bank in first for name in bank.names} == {name for bank in second for name in bank.names}
    name = next(iter(set(first[0].names) & set(second[0].names)))
    one, other = (bank[0].pixels[bank[0].names.index(name) * 3 :][:3] for bank in (first, second))
    assert not np.array_equal(one, other)


def test_a_missing_face_is_told_and_its_glyphs_are_kept_apart(
    few_fonts: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = Glyphs(size=12, per_class=3)
    four = settings.load(silent)
    assert "12 of the 16 faces are not in" in caplog.text
    (few_fonts / "STIXGeneralItalic.ttf").unlink()
    assert pixels_of(settings.load(silent)) != pixels_of(four)


def test_no_faces_is_refused(few_fonts: Path) -> None:
    shutil.rmtree(few_fonts)
    with pytest.raises(DataError, match=r"fonts are not in .*: install matplotlib"):
        Glyphs().load(silent)


@pytest.mark.parametrize(("field", "value"), [("size", 7), ("per_class", 1), ("seed", -1)])
def test_impossible_settings_are_refused(field: str, value: int) -> None:
    with pytest.raises(ValueError, match=f"{field} must be at least .*, not {value}"):
        Glyphs(**{field: value})
