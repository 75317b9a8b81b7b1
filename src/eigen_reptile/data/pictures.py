"""One picture: from the bytes of a file to pixels, or to a reason why not."""

import io
import re
import warnings
import zlib
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import UInt8
from PIL import Image, ImageOps

from eigen_reptile.data.archives import Source, UnreadableError

EXTENSIONS = frozenset({".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".ppm", ".tif", ".tiff"})
FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "GIF", "PPM", "TIFF")
MAX_BYTES = 1 << 28
"""Length of a picture's file; and of its pixels, when there are `MAX_PIXELS` of four bytes."""
MAX_PIXELS = 1 << 26


class Style(NamedTuple):
    """What all pictures of a data set are made into."""

    size: int
    """Height and width."""
    mode: Literal["L", "RGB"]
    fit: Callable[[Image.Image, int], UInt8[np.ndarray, "..."]]
    """Makes a grey or coloured picture of any size one of this size; ValueError if that is not meant to be."""

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.size, self.size, len(self.mode)


def stretched(image: Image.Image, size: int) -> UInt8[np.ndarray, "..."]:
    """Bicubic, as mini-ImageNet was made: the whole picture becomes a square, whatever its proportions."""
    return np.asarray(image.resize((size, size), Image.Resampling.BICUBIC))  # the same if it has that size


def unchanged(image: Image.Image, size: int) -> UInt8[np.ndarray, "..."]:
    """For data sets whose pictures have one size."""
    if image.size != (size, size):
        raise ValueError(f"is {image.width}x{image.height} pixels large, not {size}x{size}")
    return np.asarray(image)


def named_as_picture(path: str) -> bool:
    return PurePosixPath(path).suffix.lower() in EXTENSIONS


def read_picture(source: Source, path: str, style: Style) -> UInt8[np.ndarray, "H W C"]:
    """The pixels of a picture; UnreadableError names it if it is not one, not whole or too large."""
    data = source.read(path, MAX_BYTES)
    try:
        return style.fit(_decoded(data, style), style.size).reshape(style.shape)
    except ValueError as error:
        raise UnreadableError(f"{source.where(path)} {error}") from error


def stored_in_grey(data: bytes) -> bool:
    """Whether a picture can have no colours, by the way it is stored; ValueError if it is no picture."""
    image = _opened(data)
    if image.mode == "P":
        palette = image.getpalette("RGB") or []
        return palette[::3] == palette[1::3] == palette[2::3]
    return image.mode in ("1", "L", "LA") or image.mode.startswith("I")


def _opened(data: bytes) -> Image.Image:
    """The picture as its header tells; nothing is decoded yet."""
    if not data:
        raise ValueError("is empty")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            image = Image.open(io.BytesIO(data), formats=FORMATS)
    except Image.DecompressionBombError as error:
        raise ValueError(f"claims to have more than the {MAX_PIXELS} pixels allowed") from error
    except Exception as error:  # on damaged headers Pillow raises whatever its readers trip over
        raise ValueError("is not a picture of a known type") from error
    if image.width * image.height > MAX_PIXELS:
        raise ValueError(f"claims to be {image.width}x{image.height} pixels large: more than {MAX_PIXELS} in all")
    return image


def _decoded(data: bytes, style: Style) -> Image.Image:
    """The picture upright, grey or RGB, and on white where it is transparent."""
    image = _opened(data)
    whole = _WHOLE.get(image.format or "")
    if whole and not whole(data):
        raise ValueError("is cut off or damaged")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # A large JPEG need not be decoded in full.
            image.draft(None, (2 * style.size, 2 * style.size))
            image = _eight_bits(ImageOps.exif_transpose(image))
            if image.has_transparency_data:
                image = image.convert("RGBA")
                image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
            return image.convert(style.mode)
    except Exception as error:  # as above
        raise ValueError(f"cannot be decoded: {error}") from error


def _eight_bits(image: Image.Image) -> Image.Image:
    """The picture with at most 8 bits a channel. Only grey ones come with more: 16, perhaps held in 32."""
    if image.mode == "F":
        raise ValueError("it holds fractions, not whole numbers")
    if not image.mode.startswith("I"):
        return image
    values = np.asarray(image).astype(np.int64)
    if values.min() < 0 or values.max() > 0xFFFF:
        raise ValueError("it holds numbers of more than 16 bits")
    return Image.fromarray(((values + 128) // 257).astype(np.uint8))


def _whole_png(data: bytes) -> bool:
    """Whether all chunks are there to the last, and agree with their checksums."""
    start = 8
    while (body := start + 8) < len(data):
        end = body + int.from_bytes(data[start : start + 4], "big")
        if zlib.crc32(data[start + 4 : end]) != int.from_bytes(data[end : end + 4], "big") or len(data) < end + 4:
            return False
        if data[start + 4 : body] == b"IEND":
            return True
        start = end + 4
    return False


_JPEG_MARK = re.compile(rb"\xff+([^\x00\xff\xd0-\xd7])", re.DOTALL)
"""Begins a segment. Within compressed data FF is followed by 00, or by one of the numbers for restarting."""


def _whole_jpeg(data: bytes) -> bool:
    """Whether the picture has its end mark; the one of a thumbnail, which lies inside a segment, does not count."""
    position = 2
    while mark := _JPEG_MARK.search(data, position):
        if mark[1] == b"\xd9":
            return True
        position = mark.end() + int.from_bytes(data[mark.end() : mark.end() + 2], "big")
    return False


_WHOLE: dict[str, Callable[[bytes], bool]] = {"PNG": _whole_png, "JPEG": _whole_jpeg, "MPO": _whole_jpeg}
