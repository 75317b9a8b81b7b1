"""Decode one image file to pixels, or explain why it cannot be decoded."""

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

from eigen_reptile.data.io.archives import Source, UnreadableFileError

SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".ppm", ".tif", ".tiff"})
PILLOW_FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "GIF", "PPM", "TIFF")
MAX_BYTES = 1 << 28
"""Limit for the length of an image file, and for its decoded pixels: `MAX_PIXELS` of four bytes."""
MAX_PIXELS = 1 << 26


class ImageFormat(NamedTuple):
    """The size and colour mode that all images of a data set are converted to."""

    size: int
    """Height and width."""
    mode: Literal["L", "RGB"]
    fit: Callable[[Image.Image, int], UInt8[np.ndarray, "..."]]
    """Converts a greyscale or RGB image of any size to this size; ValueError if it must not be resized."""

    @property
    def shape(self) -> tuple[int, int, int]:
        """Height, width and channels."""
        return self.size, self.size, len(self.mode)


def stretch_to_square(image: Image.Image, size: int) -> UInt8[np.ndarray, "..."]:
    """Resize the whole image to a square with bicubic interpolation, as was done to make mini-ImageNet.

    The aspect ratio changes and nothing is cropped. An image that already has this size is not changed.
    """
    return np.asarray(image.resize((size, size), Image.Resampling.BICUBIC))


def require_size(image: Image.Image, size: int) -> UInt8[np.ndarray, "..."]:
    """The pixels of an image that must already have this size, for data sets whose images all do."""
    if image.size != (size, size):
        raise ValueError(f"is {image.width}x{image.height} pixels large, not {size}x{size}")
    return np.asarray(image)


def has_image_suffix(path: str) -> bool:
    return PurePosixPath(path).suffix.lower() in SUFFIXES


def read_image(source: Source, path: str, image_format: ImageFormat) -> UInt8[np.ndarray, "H W C"]:
    """The pixels of an image; an UnreadableFileError names the file if it is no image, incomplete or too large."""
    data = source.read(path, MAX_BYTES)
    try:
        return image_format.fit(_decode(data, image_format), image_format.size).reshape(image_format.shape)
    except ValueError as error:
        raise UnreadableFileError(f"{source.describe(path)} {error}") from error


def is_greyscale(data: bytes) -> bool:
    """Whether an image file is stored without colours, judged by its mode or palette; ValueError if it is no image."""
    image = _open_lazily(data)
    if image.mode == "P":
        palette = image.getpalette("RGB") or []
        return palette[::3] == palette[1::3] == palette[2::3]
    return image.mode in ("1", "L", "LA") or image.mode.startswith("I")


def _open_lazily(data: bytes) -> Image.Image:
    """Parse only the header of an image file and check the size it claims; nothing is decoded yet."""
    if not data:
        raise ValueError("is empty")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            image = Image.open(io.BytesIO(data), formats=PILLOW_FORMATS)
    except Image.DecompressionBombError as error:
        raise ValueError(f"claims to have more than the {MAX_PIXELS} pixels allowed") from error
    except Exception as error:  # Pillow's readers raise many different exceptions on damaged headers
        raise ValueError("is not an image of a known type") from error
    if image.width * image.height > MAX_PIXELS:
        raise ValueError(
            f"claims to be {image.width}x{image.height} pixels large: more than {MAX_PIXELS} pixels in total"
        )
    return image


def _decode(data: bytes, image_format: ImageFormat) -> Image.Image:
    """Decode to greyscale or RGB, apply the EXIF orientation, and composite transparent images onto white."""
    image = _open_lazily(data)
    is_complete = _COMPLETENESS_CHECKS.get(image.format or "")
    if is_complete and not is_complete(data):
        raise ValueError("is truncated or damaged")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # A large JPEG can be decoded at a fraction of its size; twice the target size is enough.
            image.draft(None, (2 * image_format.size, 2 * image_format.size))
            image = _to_eight_bits(ImageOps.exif_transpose(image))
            if image.has_transparency_data:
                image = image.convert("RGBA")
                image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
            return image.convert(image_format.mode)
    except Exception as error:  # Pillow's readers raise many different exceptions on damaged data
        raise ValueError(f"cannot be decoded: {error}") from error


def _to_eight_bits(image: Image.Image) -> Image.Image:
    """Reduce to at most 8 bits per channel. Only greyscale images have more: 16 bits, possibly stored as 32."""
    if image.mode == "F":
        raise ValueError("its pixels are floating-point numbers, not integers")
    if not image.mode.startswith("I"):
        return image
    values = np.asarray(image).astype(np.int64)
    if values.min() < 0 or values.max() > 0xFFFF:
        raise ValueError("its pixels have more than 16 bits")
    return Image.fromarray(((values + 128) // 257).astype(np.uint8))


def _png_is_complete(data: bytes) -> bool:
    """Whether all chunks up to the last are present and match their checksums."""
    start = 8
    while (body := start + 8) < len(data):
        end = body + int.from_bytes(data[start : start + 4], "big")
        if zlib.crc32(data[start + 4 : end]) != int.from_bytes(data[end : end + 4], "big") or len(data) < end + 4:
            return False
        if data[start + 4 : body] == b"IEND":
            return True
        start = end + 4
    return False


_JPEG_MARKER = re.compile(rb"\xff+([^\x00\xff\xd0-\xd7])", re.DOTALL)
"""Starts a segment. Within compressed data, FF is followed by 00 or by one of the restart markers D0 to D7."""


def _jpeg_is_complete(data: bytes) -> bool:
    """Whether the image has its end marker; that of a thumbnail, which is inside a segment, does not count."""
    position = 2
    while marker := _JPEG_MARKER.search(data, position):
        if marker[1] == b"\xd9":
            return True
        position = marker.end() + int.from_bytes(data[marker.end() : marker.end() + 2], "big")
    return False


_COMPLETENESS_CHECKS: dict[str, Callable[[bytes], bool]] = {
    "PNG": _png_is_complete,
    "JPEG": _jpeg_is_complete,
    "MPO": _jpeg_is_complete,
}
