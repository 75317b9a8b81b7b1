"""Characters of many scripts, drawn from the fonts that matplotlib ships: a data set that needs no download.

A class is one character. Its pictures show it in all faces that have it, each time distorted anew: white on black, as
in Omniglot with its colours turned. Nothing but fonts, settings and seed decides what is drawn.
"""

import hashlib
import logging
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import final

import matplotlib
import numpy as np
from jaxtyping import Float, UInt8
from matplotlib.ft2font import FT2Font
from PIL import Image, ImageDraw, ImageFont, ImageOps

from eigen_reptile.data.bank import Banks, DataError, Dataset, Split
from eigen_reptile.data.cache import Allocate, Packed, cached
from eigen_reptile.data.images import ImageBank
from eigen_reptile.progress import Announce

log = logging.getLogger(__name__)

RULE = 1
"""Goes up when this file comes to draw other pictures from the same fonts and settings."""

FACES = tuple(
    f"{family}{style}.ttf"
    for family, styles in {
        "DejaVuSans": ("", "-Bold", "-Oblique", "-BoldOblique"),
        "DejaVuSansMono": ("", "-Bold", "-Oblique", "-BoldOblique"),
        "DejaVuSerif": ("", "-Bold", "-Italic", "-BoldItalic"),
        "STIXGeneral": ("", "Bol", "Italic", "BolIta"),
    }.items()
    for style in styles
)
LEAST_FACES = 2
"""Tifinagh, N'Ko and Ogham have two, upright and bold; most scripts have from four to sixteen."""

SHARES: dict[Split, float] = {"train": 0.64, "validation": 0.16, "test": 0.2}
POINTS = 96
"""Font size at which characters are drawn before they are fitted into a square."""
SQUARE = 64
"""Side of that square."""

THUMBNAIL = 10
"""Side of the pictures that are compared to find look-alikes: so small that details of a face count for little."""
ALIKE = 0.95
"""Cosine between two thumbnails above which two characters look alike: e and c do, C and G do not."""

CELLS = 2
"""A picture is distorted as a mesh of so many cells in each direction."""


@final
@dataclass(frozen=True)
class Glyphs(Dataset):
    """Characters of many scripts, drawn from matplotlib's fonts; made once in seconds, and kept.

    Classes are letters and digits. Accented letters and other combinations of characters are no classes, and of
    characters that look alike (Latin A, Greek Alpha and Cyrillic A; O and o) only the first is one, so that no class
    of one split has a double in another. Which class is in which split is a seeded shuffle over all scripts: 64 % are
    for training, 16 % for validation, 20 % for testing.
    """

    size: int = 28
    """Height and width of the pictures."""
    per_class: int = 20
    """Pictures of each character."""
    seed: int = 0
    """Of the distortions, and of which characters are for training, validation and testing."""

    def __post_init__(self) -> None:
        for name, least in (("size", 8), ("per_class", 2), ("seed", 0)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} must be at least {least}, not {getattr(self, name)}")

    @property
    def classifies(self) -> bool:
        return True

    @property
    def characters(self) -> bool:
        return True

    def load(self, announce: Announce) -> Banks:
        fonts = _fonts(Path(matplotlib.get_data_path()) / "fonts" / "ttf")
        digests = {font.name: hashlib.sha256(font.read_bytes()).hexdigest() for font in fonts}
        key = {"rule": RULE, "fonts": digests, **asdict(self)}
        packed = cached("glyphs", key, partial(self._make, fonts, announce))
        return Banks(**{split: ImageBank(*packed[split]) for split in SHARES})

    def _make(self, fonts: Sequence[Path], announce: Announce, allocate: Allocate) -> dict[Split, Packed]:
        drawn = [_characters(font) for font in fonts]
        classes = _unlike(drawn)
        report = announce("making glyphs", len(classes))
        done = 0
        packed: dict[Split, Packed] = {}
        for split, chosen in _split(classes, self.seed).items():
            pixels = allocate(split, (len(chosen) * self.per_class, self.size, self.size, 1))
            for number, character in enumerate(chosen):
                faces = [face[character] for face in drawn if character in face]
                rng = np.random.default_rng((self.seed, ord(character)))
                rows = slice(number * self.per_class, (number + 1) * self.per_class)
                pixels[rows, ..., 0] = _pictures(faces, self.per_class, self.size, rng)
                done += 1
                report(done, {})
            names = tuple(f"U+{ord(character):04X} {unicodedata.name(character)}" for character in chosen)
            packed[split] = Packed(pixels, names, (self.per_class,) * len(chosen))
        return packed


def _fonts(folder: Path) -> list[Path]:
    found = [folder / name for name in FACES if (folder / name).is_file()]
    if len(found) < LEAST_FACES:
        raise DataError(f"matplotlib's fonts are not in {folder}: install matplotlib again, with its fonts")
    if len(found) < len(FACES):
        log.warning("%d of the %d faces are not in %s: glyphs will differ", len(FACES) - len(found), len(FACES), folder)
    return found


def _characters(font: Path) -> dict[str, Image.Image]:
    """The letters and digits of one face, each as large as fits into the same square.

    A character that can be decomposed is another one with an accent, in another position or in another style.
    """
    face = ImageFont.truetype(font, POINTS, layout_engine=ImageFont.Layout.BASIC)
    # Glyph 0 is the box that stands for what a face lacks.
    codes = sorted(code for code, glyph in FT2Font(str(font)).get_charmap().items() if glyph)
    wanted = (
        character
        for character in map(chr, codes)
        if unicodedata.category(character) in ("Lu", "Ll", "Lo", "Nd") and not unicodedata.decomposition(character)
    )
    drawn = {}
    for character in wanted:
        left, top, right, bottom = map(round, face.getbbox(character))
        image = Image.new("L", (right - left, bottom - top))
        ImageDraw.Draw(image).text((-left, -top), character, fill=255, font=face)
        # The face's own box has room around the ink; a few characters have no ink at all.
        if ink := image.getbbox():
            drawn[character] = ImageOps.pad(image.crop(ink), (SQUARE, SQUARE))
    return drawn


def _unlike(drawn: Sequence[Mapping[str, Image.Image]]) -> list[str]:
    """The characters, in the order of Unicode, that do not look like an earlier one of them, whatever the faces.

    Looking alike is not transitive: a chain of small steps leads through a third of all characters. So each one is
    held against those that stay, and does not go because of its likeness to one that went.
    """
    faces = Counter(character for face in drawn for character in face)
    characters = sorted(character for character, count in faces.items() if count >= LEAST_FACES)
    owner = np.repeat(np.arange(len(characters)), [faces[character] for character in characters])
    squares = (face[character] for character in characters for face in drawn if character in face)
    small = [np.asarray(square.resize((THUMBNAIL, THUMBNAIL), Image.Resampling.BILINEAR)) for square in squares]
    # Whole numbers below 2**24: single precision is exact, and every machine finds the same look-alikes.
    thumbnails = np.stack(small).reshape(len(owner), -1).astype(np.float32)
    lengths = np.linalg.norm(thumbnails.astype(np.float64), axis=1)
    gone = np.zeros(len(characters), dtype=bool)
    kept = []
    for number, character in enumerate(characters):
        if not gone[number]:
            kept.append(character)
            own = owner == number
            near = thumbnails[own] @ thumbnails.T > ALIKE * np.outer(lengths[own], lengths)
            gone[owner[near.any(axis=0)]] = True
    return kept


def _split(classes: Sequence[str], seed: int) -> dict[Split, list[str]]:
    shuffled = np.random.default_rng(seed).permutation(np.array(classes))
    cuts = np.round(np.cumsum(list(SHARES.values()))[:-1] * len(classes)).astype(int)
    return {split: sorted(part.tolist()) for split, part in zip(SHARES, np.split(shuffled, cuts), strict=True)}


def _pictures(
    faces: Sequence[Image.Image], count: int, size: int, rng: np.random.Generator
) -> UInt8[np.ndarray, "{count} {size} {size}"]:
    """The faces in turn, each time distorted anew, at twice the size first, so that edges come out smooth."""
    side = 2 * size
    lines = np.linspace(0, side, CELLS + 1).astype(int)
    cells = [(row, column) for row in range(CELLS) for column in range(CELLS)]
    boxes = [(*lines[[column, row]], *lines[[column + 1, row + 1]]) for row, column in cells]
    pictures = np.empty((count, size, size), dtype=np.uint8)
    for number, point in enumerate((_meshes(lines / side, count, rng) * SQUARE).tolist()):
        quads = [(*point[r][c], *point[r + 1][c], *point[r + 1][c + 1], *point[r][c + 1]) for r, c in cells]
        mesh = list(zip(boxes, quads, strict=True))
        face = faces[number % len(faces)]
        large = face.transform((side, side), Image.Transform.MESH, mesh, Image.Resampling.BILINEAR)
        pictures[number] = np.asarray(large.reduce(2))
    return pictures


def _meshes(lines: np.ndarray, count: int, rng: np.random.Generator) -> Float[np.ndarray, "{count} grid grid 2"]:
    """Which point (x, y) of a character's unit square is seen at each crossing of the lines, in each picture.

    The character is moved, turned, slanted, made smaller, stretched and bent, but not so much that it becomes another.
    """
    grid = np.stack(np.meshgrid(lines, lines), axis=-1) - 0.5
    moved = grid + rng.uniform(-0.06, 0.06, size=(count, 1, 1, 2))
    angle, slant = rng.uniform(-0.25, 0.25, size=(2, count))
    scale, stretch = rng.uniform(1.25, 1.65, size=count), rng.uniform(0.9, 1.1, size=count)
    turned = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    shaped = np.array([[stretch, slant], [np.zeros(count), 1 / stretch]]) * scale
    bent = rng.normal(0.0, 0.04, size=(count, *grid.shape))
    points: np.ndarray = np.einsum("ijn,jkn,nrck->nrci", turned, shaped, moved) + bent + 0.5
    return points
