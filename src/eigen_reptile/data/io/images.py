"""Decode one image file to pixels, or explain why it cannot be decoded."""

import io
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import PurePosixPath
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import UInt8
from PIL import Image, ImageFile, ImageOps, TiffImagePlugin

from eigen_reptile.data.io.archives import Source, UnreadableFileError
from eigen_reptile.data.io.image_checks import MAX_SLOW_BYTES, check_structure
from eigen_reptile.errors import RunError

SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".ppm", ".tif", ".tiff"})
PILLOW_FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "GIF", "PPM", "TIFF")
MAX_BYTES = 1 << 28
"""Limit for the length of an image file."""
MAX_PIXELS = 61_000_000
"""Limit for the decoded pixels, those of the largest full-frame cameras; with a converted copy, 8 bytes each."""
MAX_SIDE = 1 << 16
"""Limit for the height and for the width: to resize an image takes 32 bytes for each row and for each column."""
SLOW_CODECS = ("ppm", "ppm_plain", "bmp_rle")
"""Codecs that Pillow implements in Python: PPM with other than 8 or 16 bits, or as text, and compressed BMP."""
MAX_SLOW_PIXELS = 1 << 21
MAX_STRIP_BYTES = 3 * MAX_PIXELS
"""Limit for a part of a compressed TIFF, which is decoded as a whole beside the image."""
STRIP_PIXELS = 1 << 20
"""Pixels that are converted at once."""


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
    with _file_named(source, path):
        return image_format.fit(_decode(data, image_format), image_format.size).reshape(image_format.shape)


def read_thumbnail(source: Source, path: str, size: int) -> Image.Image:
    """An image in RGB, reduced to fit into a square of this size; UnreadableFileError as above."""
    data = source.read(path, MAX_BYTES)
    with _file_named(source, path):
        image = _decode(data, ImageFormat(size, "RGB", stretch_to_square))
        image.thumbnail((size, size))
    return image


@contextmanager
def _file_named(source: Source, path: str) -> Iterator[None]:
    """Name the file whose decoding fails: an UnreadableFileError, or a RunError if there is not enough memory."""
    try:
        yield
    except ValueError as error:
        raise UnreadableFileError(f"{source.describe(path)} {error}") from error
    except MemoryError as error:  # the file may be whole, so it must not be skipped
        raise RunError(f"not enough memory to decode {source.describe(path)}") from error


def convert_image(image: Image.Image, image_format: ImageFormat) -> UInt8[np.ndarray, "H W C"]:
    """The pixels of an image in memory, converted like that of a file; ValueError if it is too large or incomplete."""
    _check_pixels(image, MAX_PIXELS)
    with _pillow_errors_explained():
        upright = ImageOps.exif_transpose(image)  # a copy: the given image is not changed
        converted = _convert_in_strips(upright, image_format.mode)
    return image_format.fit(converted, image_format.size).reshape(image_format.shape)


def is_greyscale(data: bytes) -> bool:
    """Whether an image file is stored without colours, judged by its mode or palette; ValueError if it is broken."""
    image = _open_lazily(data)
    if image.mode == "P":
        with _pillow_errors_explained():
            palette = image.getpalette("RGB") or []
        return palette[::3] == palette[1::3] == palette[2::3]
    return image.mode in ("1", "L", "LA") or image.mode.startswith("I")


def _open_lazily(data: bytes) -> ImageFile.ImageFile:
    """Parse only the header of an image file and check the size it claims; nothing is decoded yet."""
    if not data:
        raise ValueError("is empty")
    check_structure(data)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            image = Image.open(io.BytesIO(data), formats=PILLOW_FORMATS)
    except Image.DecompressionBombError as error:
        raise ValueError(f"claims to have more than the {MAX_PIXELS} pixels allowed") from error
    except MemoryError:
        raise
    except Exception as error:  # Pillow's readers raise many different exceptions on damaged headers
        raise ValueError("is not an image of a known type") from error
    most = MAX_PIXELS
    if any(tile.codec_name in SLOW_CODECS for tile in image.tile[:1]):
        most = MAX_SLOW_PIXELS
        if len(data) > MAX_SLOW_BYTES:
            raise ValueError(f"has {len(data)} bytes, more than the {MAX_SLOW_BYTES} allowed for this type")
    _check_pixels(image, most)
    if isinstance(image, TiffImagePlugin.TiffImageFile) and any(tile.codec_name == "libtiff" for tile in image.tile):
        _check_strips(image)
    return image


def _check_strips(image: TiffImagePlugin.TiffImageFile) -> None:
    """ValueError if the strips or tiles of a compressed TIFF are too large."""

    def largest(tag: int, otherwise: int) -> int:
        value = image.tag_v2.get(tag, otherwise)
        values = value if isinstance(value, tuple) else (value,)
        return max((one for one in values if isinstance(one, int) and one > 0), default=otherwise)

    width = largest(TiffImagePlugin.TILEWIDTH, image.width)
    height = largest(TiffImagePlugin.TILELENGTH, min(image.height, largest(TiffImagePlugin.ROWSPERSTRIP, image.height)))
    bits = largest(TiffImagePlugin.BITSPERSAMPLE, 1) * largest(TiffImagePlugin.SAMPLESPERPIXEL, 1)
    if width * height * bits > 8 * MAX_STRIP_BYTES:
        raise ValueError(f"has parts of more than the {MAX_STRIP_BYTES} bytes allowed")


def _check_pixels(image: Image.Image, most: int) -> None:
    if not image.width * image.height:
        raise ValueError("has no pixels")
    if image.width * image.height > most:
        raise ValueError(f"claims to be {image.width}x{image.height} pixels large: more than {most} pixels in total")
    if max(image.size) > MAX_SIDE:
        raise ValueError(f"claims to be {image.width}x{image.height} pixels large: a side has more than {MAX_SIDE}")
    if image.mode == "F":
        raise ValueError("cannot be decoded: its pixels are floating-point numbers, not integers")


def _decode(data: bytes, image_format: ImageFormat) -> Image.Image:
    """Decode to greyscale or RGB, apply the EXIF orientation, and composite transparent images onto white."""
    image = _open_lazily(data)
    with _pillow_errors_explained():
        # A large JPEG can be decoded at a fraction of its size; twice the target size is enough.
        image.draft(None, (2 * image_format.size, 2 * image_format.size))
        ImageOps.exif_transpose(image, in_place=True)
        return _convert_in_strips(image, image_format.mode)


def _convert_in_strips(image: Image.Image, mode: str) -> Image.Image:
    """Convert to this mode strip by strip, because each step makes a copy that takes up to four bytes a pixel."""
    if image.mode == mode and not image.has_transparency_data:
        return image
    rows = max(1, STRIP_PIXELS // image.width)
    if rows >= image.height:
        return _convert(image, mode)
    converted = Image.new(mode, image.size)
    for top in range(0, image.height, rows):
        strip = image.crop((0, top, image.width, min(top + rows, image.height)))
        converted.paste(_convert(strip, mode), (0, top))
    return converted


@contextmanager
def _pillow_errors_explained() -> Iterator[None]:
    """Turn the many different exceptions that Pillow's readers raise on damaged data into ValueErrors."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except MemoryError:
        raise
    except Exception as error:
        raise ValueError(f"cannot be decoded: {str(error)[:200] or 'its parts contradict each other'}") from error


def _convert(image: Image.Image, mode: str) -> Image.Image:
    """Convert to this mode. Only greyscale images have more than 8 bits per channel: 16, possibly stored as 32."""
    if image.mode.startswith("I"):
        values = np.asarray(image).astype(np.int32)
        if values.min() < 0 or values.max() > 0xFFFF:
            raise ValueError("its pixels have more than 16 bits")
        image = Image.fromarray(((values + 128) // 257).astype(np.uint8))
    if image.has_transparency_data:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    return image if image.mode == mode else image.convert(mode)
