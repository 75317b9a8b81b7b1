"""Glyphs: distinguishable classes, drawn deterministically and only once."""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from matplotlib.ft2font import FT2Font
from PIL import Image, ImageFont, ImageOps

from eigen_reptile.data.bank import Banks, TaskShape
from eigen_reptile.data.datasets.glyphs import FACES, Glyphs, draw_characters
from eigen_reptile.data.image_bank import ImageBank
from eigen_reptile.errors import ConfigError, DataError
from eigen_reptile.runtime.progress import ReportProgress, no_progress

pytestmark = pytest.mark.xdist_group("data_glyphs")  # the module-scoped fixture is built only once

TTF = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
GLYPHS = Glyphs(size=20, per_class=12)
DEJAVU_SANS = {f"U+{code:04X}" for code in FT2Font(str(TTF / "DejaVuSans.ttf")).get_charmap()}


def image_banks(banks: Banks) -> list[ImageBank]:
    assert all(isinstance(bank, ImageBank) for bank in banks)
    return [bank for bank in banks if isinstance(bank, ImageBank)]


def pixels_of(banks: Banks) -> list[bytes]:
    return [bank.pixels.tobytes() for bank in image_banks(banks)]


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("cache")
        patch.setenv("EIGEN_REPTILE_CACHE", str(folder))
        yield folder


@pytest.fixture(scope="module")
def banks(cache: Path) -> Banks:
    """Drawn from all faces; the tests of drawing itself use fewer, which is quicker."""
    return GLYPHS.load(no_progress)


@pytest.fixture
def few_fonts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make matplotlib have only four faces, and use a separate cache."""
    folder = tmp_path / "data" / "fonts" / "ttf"
    folder.mkdir(parents=True)
    for style in ("", "Bol", "Italic", "BolIta"):
        shutil.copy(TTF / f"STIXGeneral{style}.ttf", folder)
    monkeypatch.setattr(matplotlib, "get_data_path", lambda: str(tmp_path / "data"))
    monkeypatch.setenv("EIGEN_REPTILE_CACHE", str(tmp_path / "cache"))
    return folder


def by_class(bank: ImageBank) -> np.ndarray:
    """Images as vectors: (class, image, pixel)."""
    return np.asarray(bank.pixels, dtype=np.float64).reshape(len(bank.names), GLYPHS.per_class, -1)


def test_splits_share_no_class_and_have_the_right_sizes(banks: Banks) -> None:
    names = [name for bank in image_banks(banks) for name in bank.names]
    assert len(names) == len(set(names)) > 500
    fractions = np.array([len(bank.names) for bank in image_banks(banks)]) / len(names)
    np.testing.assert_allclose(fractions, [0.64, 0.16, 0.2], atol=0.002)
    assert {name.split()[1] for name in names} >= {"LATIN", "GREEK", "CYRILLIC", "ARABIC", "GEORGIAN", "TIFINAGH"}


def test_images_are_white_on_black_with_a_margin(banks: Banks) -> None:
    for bank in image_banks(banks):
        assert bank.shape == (1, 20, 20)
        assert bank.sizes.tolist() == [12] * len(bank.names)
        pixels = by_class(bank)
        assert pixels.max(axis=-1).min() > 100, "a blank image"
        assert pixels.mean() < 60
        border = pixels.reshape(-1, 20, 20)[:, [0, -1]]
        assert np.mean(border > 100) < 0.01


@pytest.mark.parametrize(
    ("first", "others"),
    [("A", "\u0391\u0410"), ("C", "c\u0421\u0441"), ("0", "Oo\u039f\u043e\u0555"), ("X", "x\u0425")],
)
def test_look_alikes_are_one_class(banks: Banks, first: str, others: str) -> None:
    codes = {name.split()[0] for bank in image_banks(banks) for name in bank.names}
    assert f"U+{ord(first):04X}" in codes
    assert not codes & {f"U+{ord(other):04X}" for other in others}


def drawings(names: Sequence[str], side: int) -> np.ndarray:
    """The characters of DejaVu Sans, each alone and scaled to a square: (name, side, side)."""
    face = ImageFont.truetype(TTF / "DejaVuSans.ttf", 60, layout_engine=ImageFont.Layout.BASIC)
    masks = [face.getmask(chr(int(name.split()[0].removeprefix("U+"), 16))) for name in names]
    inks = [Image.frombytes("L", mask.size, bytes(mask)) for mask in masks]
    return np.stack([np.asarray(ImageOps.pad(ink.crop(ink.getbbox()), (side, side)), np.float64) for ink in inks])


def test_no_two_classes_look_alike(banks: Banks) -> None:
    """Correlation of undistorted drawings: 1 for identical ones, 0.91 for X and x."""
    names = [name for bank in image_banks(banks) for name in bank.names]
    names = [name for name in names if name.split()[0] in DEJAVU_SANS]
    likeness = np.corrcoef(drawings(names, 20).reshape(len(names), -1))
    between = likeness[np.triu_indices(len(names), 1)]
    assert between.max() < 0.97
    assert np.sum(between > 0.9) < 10


def test_images_show_the_character_of_their_class(banks: Banks) -> None:
    """Of nearly six hundred class means, the one most similar to an undistorted drawing is mostly that of its class."""
    bank = image_banks(banks)[0]
    here = [number for number, name in enumerate(bank.names) if name.split()[0] in DEJAVU_SANS]
    plain = np.pad(drawings([bank.names[number] for number in here], 14), ((0, 0), (3, 3), (3, 3)))
    means = by_class(bank)[here].mean(axis=1)
    likeness = np.corrcoef(plain.reshape(len(here), -1), means)[: len(here), len(here) :]
    assert np.mean(likeness.argmax(axis=1) == np.arange(len(here))) > 0.6


def test_few_shot_tasks_are_neither_trivial_nor_impossible(banks: Banks) -> None:
    def accuracy(shots: int) -> float:
        samples = banks.test.draw_tasks(300, TaskShape(5, shots, 5), [np.random.default_rng(0)])
        centres = samples.x[0].reshape(300, 5, shots, -1).mean(axis=2)
        centres /= np.linalg.norm(centres, axis=-1, keepdims=True)
        scores = samples.query_x[0].reshape(300, 25, -1) @ centres.transpose(0, 2, 1)
        return float(np.mean(scores.argmax(axis=-1) == samples.query_y[0]))

    assert 0.5 < accuracy(1) < 0.8
    assert accuracy(5) > 0.75


@pytest.mark.parametrize("name", FACES[::4])
def test_the_placeholder_for_missing_characters_is_never_drawn(name: str) -> None:
    face = ImageFont.truetype(TTF / name, 32, layout_engine=ImageFont.Layout.BASIC)
    placeholder = bytes(face.getmask("\uffff"))
    characters = draw_characters(TTF / name)
    assert len(characters) > 200
    assert not [character for character in characters if bytes(face.getmask(character)) == placeholder]


def test_a_character_fills_its_square() -> None:
    square = np.asarray(draw_characters(TTF / "DejaVuSerif.ttf")["T"]) > 100
    rows, columns = np.flatnonzero(square.any(axis=1)), np.flatnonzero(square.any(axis=0))
    assert rows[0] <= 1
    assert rows[-1] >= 62
    assert abs(columns[0] + columns[-1] - 63) <= 2


def test_drawn_once_and_identical_in_another_cache(few_fonts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    progress: list[tuple[str, int, int]] = []

    def start_progress(name: str, total: int) -> ReportProgress:
        def report(done: int, numbers: Mapping[str, float]) -> None:
            progress.append((name, done, total))

        return report

    settings = Glyphs(size=12, per_class=3)
    drawn = settings.load(start_progress)
    classes = sum(len(bank.names) for bank in image_banks(drawn))
    assert progress == [("making glyphs", done + 1, classes) for done in range(classes)]

    again = settings.load(start_progress)
    assert len(progress) == classes, "the second load has drawn images again"
    assert pixels_of(again) == pixels_of(drawn)
    assert [bank.names for bank in image_banks(again)] == [bank.names for bank in image_banks(drawn)]

    monkeypatch.setenv("EIGEN_REPTILE_CACHE", str(few_fonts / "other"))
    assert pixels_of(settings.load(start_progress)) == pixels_of(drawn)
    assert len(progress) == 2 * classes


def test_the_seed_changes_splits_and_images_but_not_the_classes(few_fonts: Path) -> None:
    first, second = (image_banks(Glyphs(size=12, per_class=3, seed=seed).load(no_progress)) for seed in (0, 1))
    assert first[0].names != second[0].names
    assert {name for bank in first for name in bank.names} == {name for bank in second for name in bank.names}
    name = next(iter(set(first[0].names) & set(second[0].names)))
    one, other = (bank[0].pixels[bank[0].names.index(name) * 3 :][:3] for bank in (first, second))
    assert not np.array_equal(one, other)


def test_a_missing_face_is_logged_and_its_glyphs_are_cached_separately(
    few_fonts: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = Glyphs(size=12, per_class=3)
    four = settings.load(no_progress)
    assert "12 of the 16 font faces are missing from" in caplog.text
    (few_fonts / "STIXGeneralItalic.ttf").unlink()
    assert pixels_of(settings.load(no_progress)) != pixels_of(four)


def test_missing_fonts_are_reported(few_fonts: Path) -> None:
    shutil.rmtree(few_fonts)
    with pytest.raises(DataError, match=r"fonts are not in .*: reinstall matplotlib"):
        Glyphs().load(no_progress)


@pytest.mark.parametrize(("field", "value"), [("size", 7), ("per_class", 1), ("seed", -1)])
def test_impossible_settings_are_rejected(field: str, value: int) -> None:
    with pytest.raises(ConfigError, match=rf"`data\.{field}` must be at least .*, not {value}"):
        Glyphs(**{field: value})
