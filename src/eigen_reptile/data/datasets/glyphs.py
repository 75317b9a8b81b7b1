"""Characters of many scripts, drawn from the fonts that come with matplotlib: a data set that needs no download.

A class is one character. Its images show it in all font faces that have it, each with a new random distortion, white on
black like Omniglot with inverted colours. The images depend only on the fonts, the settings and the seed.
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

from eigen_reptile.data.bank import Banks, Dataset, Split
from eigen_reptile.data.image_dataset import image_banks
from eigen_reptile.data.io.cache import Allocate, PackedSplit, load_or_build
from eigen_reptile.errors import ConfigError, DataError
from eigen_reptile.runtime.memory import check_memory
from eigen_reptile.runtime.progress import StartProgress

log = logging.getLogger(__name__)

RULE = 1
"""Part of the cache key; increase it when a change here draws other images from the same fonts and settings."""

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
MIN_FACES = 2
"""Minimum number of faces that must have a character. Tifinagh, N'Ko and Ogham have two faces, upright and bold; most
scripts have from four to sixteen."""

FRACTIONS: dict[Split, float] = {"train": 0.64, "validation": 0.16, "test": 0.2}
POINTS = 96
"""Font size at which characters are drawn before they are scaled to a square."""
SQUARE = 64
"""Side of that square."""

THUMBNAIL = 10
"""Side of the images that are compared to find look-alikes: so small that details of a face hardly matter."""
ALIKE = 0.95
"""Cosine similarity of thumbnails above which two characters look alike: e and c do, C and G do not."""

CELLS = 2
"""Cells in each direction of the mesh by which an image is distorted."""
MESH_BYTES = 3 * 8 * 2 * (CELLS + 1) ** 2
"""Memory that the points of a mesh take while they are computed."""


@final
@dataclass(frozen=True)
class Glyphs(Dataset):
    """Characters of many scripts, drawn from matplotlib's fonts: no download, ready in seconds, then cached.

    Use it to try a method on images without obtaining a data set. Classes are letters and digits. Accented letters and
    other composed characters are excluded, and of characters that look alike (Latin A, Greek Alpha and Cyrillic A; O
    and o) only the first is a class, so that no class of one split has a double in another. A seeded shuffle over all
    scripts assigns 64 % of the classes to training, 16 % to validation and 20 % to testing.
    """

    size: int = 28
    """Height and width of the images."""
    per_class: int = 20
    """Images of each character."""
    seed: int = 0
    """Seed of the distortions, and of the assignment of characters to training, validation and testing."""

    def __post_init__(self) -> None:
        for name, least in (("size", 8), ("per_class", 2), ("seed", 0)):
            if getattr(self, name) < least:
                raise ConfigError(f"`data.{name}` must be at least {least}, not {getattr(self, name)}")

    @property
    def is_classification(self) -> bool:
        return True

    @property
    def has_characters(self) -> bool:
        return True

    def load(self, start_progress: StartProgress) -> Banks:
        fonts = _find_fonts(Path(matplotlib.get_data_path()) / "fonts" / "ttf")
        digests = {font.name: hashlib.sha256(font.read_bytes()).hexdigest() for font in fonts}
        key = {"rule": RULE, "fonts": digests, **asdict(self)}
        return image_banks(load_or_build("glyphs", key, partial(self._draw_all, fonts, start_progress)))

    def _draw_all(
        self, fonts: Sequence[Path], start_progress: StartProgress, allocate: Allocate
    ) -> dict[Split, PackedSplit]:
        each = self.size**2 + MESH_BYTES
        check_memory(self.per_class * each, f"{self.per_class} images of a character", "use fewer or smaller images")
        drawn = [draw_characters(font) for font in fonts]
        classes = _without_lookalikes(drawn)
        report = start_progress("making glyphs", len(classes))
        done = 0
        packed: dict[Split, PackedSplit] = {}
        for split, chosen in _assign_splits(classes, self.seed).items():
            pixels = allocate(split, (len(chosen) * self.per_class, self.size, self.size, 1))
            for number, character in enumerate(chosen):
                faces = [face[character] for face in drawn if character in face]
                rng = np.random.default_rng((self.seed, ord(character)))
                rows = slice(number * self.per_class, (number + 1) * self.per_class)
                pixels[rows, ..., 0] = _draw_images(faces, self.per_class, self.size, rng)
                done += 1
                report(done, {})
            names = tuple(f"U+{ord(character):04X} {unicodedata.name(character)}" for character in chosen)
            packed[split] = PackedSplit(pixels, names, (self.per_class,) * len(chosen))
        return packed


def _find_fonts(folder: Path) -> list[Path]:
    found = [folder / name for name in FACES if (folder / name).is_file()]
    if len(found) < MIN_FACES:
        raise DataError(f"matplotlib's fonts are not in {folder}: reinstall matplotlib together with its fonts")
    if len(found) < len(FACES):
        log.warning(
            "%d of the %d font faces are missing from %s: the glyphs will differ",
            len(FACES) - len(found), len(FACES), folder,
        )  # fmt: skip
    return found


def draw_characters(font: Path) -> dict[str, Image.Image]:
    """The letters and digits of one font face, each scaled to fill the same square.

    Characters with a Unicode decomposition are excluded: they are another character with an accent, in another position
    or in another style.
    """
    face = ImageFont.truetype(font, POINTS, layout_engine=ImageFont.Layout.BASIC)
    # Glyph 0 is the box that is shown for missing characters.
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
        # The bounding box given by the face has a margin around the ink; a few characters have no ink at all.
        if ink := image.getbbox():
            drawn[character] = ImageOps.pad(image.crop(ink), (SQUARE, SQUARE))
    return drawn


def _without_lookalikes(drawn: Sequence[Mapping[str, Image.Image]]) -> list[str]:
    """The characters, in Unicode order, that do not look like an earlier kept one in any pair of faces.

    Looking alike is not transitive: a chain of similar pairs connects a third of all characters. Therefore each
    character is compared only with those that are kept, and not with those that have been removed.
    """
    faces = Counter(character for face in drawn for character in face)
    characters = sorted(character for character, count in faces.items() if count >= MIN_FACES)
    owner = np.repeat(np.arange(len(characters)), [faces[character] for character in characters])
    squares = (face[character] for character in characters for face in drawn if character in face)
    small = [np.asarray(square.resize((THUMBNAIL, THUMBNAIL), Image.Resampling.BILINEAR)) for square in squares]
    # Sums of integers below 2**24 are exact in single precision, so every machine finds the same look-alikes.
    thumbnails = np.stack(small).reshape(len(owner), -1).astype(np.float32)
    lengths = np.linalg.norm(thumbnails.astype(np.float64), axis=1)
    removed = np.zeros(len(characters), dtype=bool)
    kept = []
    for number, character in enumerate(characters):
        if not removed[number]:
            kept.append(character)
            own = owner == number
            near = thumbnails[own] @ thumbnails.T > ALIKE * np.outer(lengths[own], lengths)
            removed[owner[near.any(axis=0)]] = True
    return kept


def _assign_splits(classes: Sequence[str], seed: int) -> dict[Split, list[str]]:
    shuffled = np.random.default_rng(seed).permutation(np.array(classes))
    cuts = np.round(np.cumsum(list(FRACTIONS.values()))[:-1] * len(classes)).astype(int)
    return {split: sorted(part.tolist()) for split, part in zip(FRACTIONS, np.split(shuffled, cuts), strict=True)}


def _draw_images(
    faces: Sequence[Image.Image], count: int, size: int, rng: np.random.Generator
) -> UInt8[np.ndarray, "{count} {size} {size}"]:
    """The faces in turn, each with a new distortion, drawn at twice the size first so that edges become smooth."""
    side = 2 * size
    lines = np.linspace(0, side, CELLS + 1).astype(int)
    cells = [(row, column) for row in range(CELLS) for column in range(CELLS)]
    boxes = [(*lines[[column, row]], *lines[[column + 1, row + 1]]) for row, column in cells]
    images = np.empty((count, size, size), dtype=np.uint8)
    for number, point in enumerate((_meshes(lines / side, count, rng) * SQUARE).tolist()):
        quads = [(*point[r][c], *point[r + 1][c], *point[r + 1][c + 1], *point[r][c + 1]) for r, c in cells]
        mesh = list(zip(boxes, quads, strict=True))
        face = faces[number % len(faces)]
        large = face.transform((side, side), Image.Transform.MESH, mesh, Image.Resampling.BILINEAR)
        images[number] = np.asarray(large.reduce(2))
    return images


def _meshes(lines: np.ndarray, count: int, rng: np.random.Generator) -> Float[np.ndarray, "{count} grid grid 2"]:
    """The point (x, y) of a character's unit square that is shown at each crossing of the grid lines, in each image.

    The character is shifted, rotated, slanted, scaled down, stretched and bent, but not enough to become another one.
    """
    grid = np.stack(np.meshgrid(lines, lines), axis=-1) - 0.5
    shifted = grid + rng.uniform(-0.06, 0.06, size=(count, 1, 1, 2))
    angle, slant = rng.uniform(-0.25, 0.25, size=(2, count))
    scale, stretch = rng.uniform(1.25, 1.65, size=count), rng.uniform(0.9, 1.1, size=count)
    rotation = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    scaling = np.array([[stretch, slant], [np.zeros(count), 1 / stretch]]) * scale
    bending = rng.normal(0.0, 0.04, size=(count, *grid.shape))
    points: np.ndarray = np.einsum("ijn,jkn,nrck->nrci", rotation, scaling, shifted) + bending + 0.5
    return points
