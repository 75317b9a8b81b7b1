"""An image is decoded to the pixels that Pillow gives; for a file that is no image the reason is reported."""

import io
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, NoReturn

import numpy as np
import pytest
from PIL import Image

from eigen_reptile.data.datasets.omniglot import average_ink
from eigen_reptile.data.io.archives import FolderSource, UnreadableFileError
from eigen_reptile.data.io.images import (
    ImageFormat,
    is_greyscale,
    read_image,
    read_thumbnail,
    require_size,
    stretch_to_square,
)
from eigen_reptile.errors import RunError

GREY = np.random.default_rng(0).integers(0, 256, (8, 8), dtype=np.uint8)
COLOURED = np.random.default_rng(1).integers(0, 256, (8, 8, 3), dtype=np.uint8)


def saved(image: Image.Image, kind: str = "PNG", **options: object) -> bytes:
    stream = io.BytesIO()
    image.save(stream, kind, **options)
    return stream.getvalue()


def read(tmp_path: Path, data: bytes, image_format: ImageFormat) -> np.ndarray:
    (tmp_path / "image.png").write_bytes(data)
    return read_image(FolderSource(tmp_path, depth=1), "image.png", image_format)


def pixels(tmp_path: Path, image: Image.Image, mode: str = "RGB", kind: str = "PNG", **options: object) -> np.ndarray:
    image_format = ImageFormat(8, "L" if mode == "L" else "RGB", require_size)
    return read(tmp_path, saved(image, kind, **options), image_format)


@pytest.mark.parametrize("kind", ["PNG", "BMP", "PPM", "TIFF", "WEBP", "JPEG"])
def test_pixels_equal_those_that_pillow_decodes(tmp_path: Path, kind: str) -> None:
    options = {"lossless": True} if kind == "WEBP" else {}
    data = saved(Image.fromarray(COLOURED), kind, **options)
    expected = np.asarray(Image.open(io.BytesIO(data)))
    assert np.array_equal(read(tmp_path, data, ImageFormat(8, "RGB", require_size)), expected)
    assert kind == "JPEG" or np.array_equal(expected, COLOURED)


def test_conversion_between_greyscale_and_rgb(tmp_path: Path) -> None:
    grey = Image.fromarray(GREY)
    assert np.array_equal(pixels(tmp_path, grey, "L"), GREY[..., None])
    assert np.array_equal(pixels(tmp_path, grey, "RGB"), np.repeat(GREY[..., None], 3, axis=2))
    weights = COLOURED @ np.array([0.299, 0.587, 0.114])
    assert np.abs(pixels(tmp_path, Image.fromarray(COLOURED), "L")[..., 0] - weights).max() <= 1


def test_a_lack_of_memory_does_not_make_an_image_a_broken_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: object, **settings: object) -> NoReturn:
        raise MemoryError

    data = saved(Image.fromarray(COLOURED))
    for owner, name in ((Image, "open"), (Image.Image, "convert")):
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, fail)
            with pytest.raises(RunError, match=r"not enough memory to decode .*image\.png"):
                read(tmp_path, data, ImageFormat(8, "L", require_size))
    monkeypatch.setattr(Image.Image, "thumbnail", fail)
    with pytest.raises(RunError, match=r"not enough memory to decode .*image\.png"):
        read_thumbnail(FolderSource(tmp_path, depth=1), "image.png", 4)


def test_one_bit_images(tmp_path: Path) -> None:
    expected = np.where(GREY < 128, 0, 255)[..., None]
    assert np.array_equal(pixels(tmp_path, Image.fromarray(GREY >= 128), "L"), expected)


def test_transparent_images_are_composited_onto_white(tmp_path: Path) -> None:
    alpha = np.array([0, 51, 255], dtype=np.uint8)[np.arange(64).reshape(8, 8) % 3]
    opacity = alpha[..., None] / 255
    expected = COLOURED * opacity + 255 * (1 - opacity)
    rgba = Image.fromarray(np.dstack([COLOURED, alpha]))
    assert np.abs(pixels(tmp_path, rgba) - expected).max() <= 1
    la = Image.fromarray(np.dstack([GREY, alpha]), "LA")
    assert np.abs(pixels(tmp_path, la, "L") - (GREY[..., None] * opacity + 255 * (1 - opacity))).max() <= 1


@pytest.mark.parametrize("kind", ["PNG", "GIF"])
def test_palette_images(tmp_path: Path, kind: str) -> None:
    image = Image.fromarray(np.arange(64, dtype=np.uint8).reshape(8, 8) % 4)
    colours = np.array([[255, 0, 0], [0, 255, 0], [0, 0, 255], [9, 8, 7]], dtype=np.uint8)
    image.putpalette(colours.tobytes())
    expected = colours[np.asarray(image)]
    assert np.array_equal(pixels(tmp_path, image, kind=kind), expected)
    expected[np.asarray(image) == 2] = 255
    assert np.array_equal(pixels(tmp_path, image, kind=kind, transparency=2), expected)


@pytest.mark.parametrize("kind", ["PNG", "TIFF", "PPM"])
def test_sixteen_bit_images(tmp_path: Path, kind: str) -> None:
    values = np.linspace(0, 65535, 64).astype(np.uint16).reshape(8, 8)
    result = pixels(tmp_path, Image.fromarray(values), "L", kind)
    assert np.abs(result[..., 0] - values / 257).max() <= 0.5


def test_cmyk_images(tmp_path: Path) -> None:
    image = Image.new("CMYK", (8, 8), (0, 255, 255, 0))
    assert np.abs(pixels(tmp_path, image, kind="JPEG").astype(int) - [255, 0, 0]).max() < 8
    assert np.array_equal(pixels(tmp_path, image, kind="TIFF"), np.full((8, 8, 3), [255, 0, 0]))


@pytest.mark.parametrize(
    ("tag", "stored"),
    [(1, lambda x: x), (3, lambda x: np.rot90(x, 2)), (6, lambda x: np.rot90(x, 1)), (8, lambda x: np.rot90(x, 3))],
)
@pytest.mark.parametrize("array", [COLOURED, GREY, GREY.astype(np.uint16) * 257])
def test_exif_orientation_is_applied(
    tmp_path: Path, tag: int, stored: Callable[[np.ndarray], np.ndarray], array: np.ndarray
) -> None:
    exif = Image.Exif()
    exif[0x0112] = tag
    image = Image.fromarray(np.ascontiguousarray(stored(array)))
    expected = array if array.ndim == 3 else GREY[..., None]
    assert np.array_equal(pixels(tmp_path, image, "RGB" if array.ndim == 3 else "L", exif=exif), expected)


def test_another_size_is_stretched_or_rejected(tmp_path: Path) -> None:
    half = np.zeros((40, 90, 3), dtype=np.uint8)
    half[:, 45:] = 200
    small = read(tmp_path, saved(Image.fromarray(half)), ImageFormat(6, "RGB", stretch_to_square))
    assert np.abs(small.astype(int) - np.repeat([0, 200], 3)[:, None]).max() <= 20  # bicubic softens the edge
    with pytest.raises(UnreadableFileError, match=r"image\.png is 90x40 pixels large, not 6x6"):
        read(tmp_path, saved(Image.fromarray(half)), ImageFormat(6, "RGB", require_size))
    same = read(tmp_path, saved(Image.fromarray(COLOURED)), ImageFormat(8, "RGB", stretch_to_square))
    assert np.array_equal(same, COLOURED)


def test_large_jpeg_is_reduced(tmp_path: Path) -> None:
    slope = np.tile(np.linspace(0, 255, 1600, dtype=np.uint8), (1200, 1))
    small = read(tmp_path, saved(Image.fromarray(slope), "JPEG"), ImageFormat(10, "L", stretch_to_square))
    assert np.abs(small[..., 0] - np.linspace(12.75, 242.25, 10)).max() < 2


def test_average_ink_is_the_exact_average_over_each_cell() -> None:
    sheet = np.where(np.random.default_rng(2).random((105, 105)) < 0.1, 0, 255).astype(np.uint8)
    fine = np.repeat(np.repeat(255 - sheet.astype(float), 4, axis=0), 4, axis=1)
    expected = fine.reshape(28, 15, 28, 15).mean(axis=(1, 3))
    assert np.abs(average_ink(Image.fromarray(sheet), 28) - expected).max() < 0.501


@pytest.mark.parametrize(
    ("image", "grey"),
    [
        (Image.fromarray(GREY), True),
        (Image.fromarray(GREY >= 128), True),
        (Image.fromarray(GREY.astype(np.uint16)), True),
        (Image.fromarray(GREY).convert("LA"), True),
        (Image.fromarray(GREY).convert("P"), True),
        (Image.fromarray(COLOURED), False),
        (Image.fromarray(COLOURED).convert("RGBA"), False),
        (Image.fromarray(COLOURED).quantize(16), False),
    ],
)
def test_is_greyscale(image: Image.Image, grey: bool) -> None:
    assert is_greyscale(saved(image)) is grey


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("PNG", {}),
        ("JPEG", {}),
        ("JPEG", {"progressive": True}),
        ("JPEG", {"restart_marker_blocks": 1}),
        ("WEBP", {}),
        ("BMP", {}),
        ("PPM", {}),
        ("TIFF", {}),
        ("GIF", {}),
    ],
)
def test_truncated_file_is_rejected_wherever_it_ends(tmp_path: Path, kind: str, options: dict[str, object]) -> None:
    noise = np.random.default_rng(3).integers(0, 256, (20, 24, 3), dtype=np.uint8)
    data = saved(Image.fromarray(noise), kind, **options)
    image_format = ImageFormat(16, "RGB", stretch_to_square)
    read(tmp_path, data, image_format)
    for length in [*range(0, len(data), 37), *range(len(data) - 12, len(data))]:
        with pytest.raises(UnreadableFileError, match=r"image\.png"):
            read(tmp_path, data[:length], image_format)


def test_thumbnail_does_not_hide_that_a_jpeg_is_truncated(tmp_path: Path) -> None:
    thumbnail = saved(Image.fromarray(COLOURED), "JPEG")
    data = saved(Image.fromarray(COLOURED), "JPEG", comment=thumbnail)
    assert data.count(b"\xff\xd9") == 2
    read(tmp_path, data, ImageFormat(8, "RGB", require_size))
    with pytest.raises(UnreadableFileError, match="truncated"):
        read(tmp_path, data[:-2], ImageFormat(8, "RGB", require_size))


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF"])
def test_trailing_bytes_after_the_end_of_an_image_are_ignored(tmp_path: Path, kind: str) -> None:
    data = saved(Image.fromarray(COLOURED), kind)
    image_format = ImageFormat(8, "RGB", require_size)
    expected = np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))
    assert np.array_equal(read(tmp_path, data + b"trailer", image_format), expected)


def test_flipped_bit_is_detected(tmp_path: Path) -> None:
    data = bytearray(saved(Image.fromarray(COLOURED)))
    data[len(data) // 2] ^= 1
    with pytest.raises(UnreadableFileError, match="damaged"):
        read(tmp_path, bytes(data), ImageFormat(8, "RGB", require_size))


def png_claiming_size(width: int, height: int) -> bytes:
    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


@pytest.mark.parametrize(
    ("width", "height"),
    [
        *[(side, side) for side in (8500, 10_000, 60_000)],  # beyond our limit, Pillow's warning, Pillow's error
        *[(2**26, 1), (1, 2**26), (2**16 + 1, 3)],  # whose pixels fit, but not what is needed to resize them
    ],
)
def test_decompression_bomb_is_rejected(tmp_path: Path, width: int, height: int) -> None:
    with pytest.raises(UnreadableFileError, match=r"image\.png claims to"):
        read(tmp_path, png_claiming_size(width, height), ImageFormat(8, "RGB", stretch_to_square))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "is empty"),
        (b"hello, this is text\n", "not an image"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n", "not an image"),
        (b"\x89PNG\r\n\x1a\n", "truncated"),
        (b"\xff\xd8\xff\xd9", "not an image"),
        (saved(Image.fromarray(GREY.astype(np.float32)), "TIFF"), "floating-point"),
        (saved(Image.fromarray(GREY.astype(np.int32) * 1000), "TIFF"), "16 bits"),
    ],
)
def test_file_that_is_no_usable_image_is_rejected_with_the_reason(tmp_path: Path, data: bytes, reason: str) -> None:
    with pytest.raises(UnreadableFileError, match=rf"image\.png .*{reason}") as caught:
        read(tmp_path, data, ImageFormat(8, "RGB", stretch_to_square))
    assert "\n" not in str(caught.value)


def compressed_tiff(side: int, bits: int, rows: int) -> bytes:
    """A greyscale TIFF with LZW compression that claims to have strips of this many rows."""
    tags = {256: side, 257: side, 258: bits, 259: 5, 262: 1, 273: 200, 277: 1, 278: rows, 279: 100}
    entries = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags.items())
    return b"II*\0" + struct.pack("<IH", 8, len(tags)) + entries + bytes(300)


def test_a_compressed_tiff_with_large_strips_is_rejected_before_they_are_decoded(tmp_path: Path) -> None:
    for rows, reason in ((8192, "has parts of more than"), (2**32 - 1, "has parts of more than"), (64, "cannot be")):
        with pytest.raises(UnreadableFileError, match=rf"image\.png {reason}"):
            read(tmp_path, compressed_tiff(7800, 32, rows), ImageFormat(8, "L", stretch_to_square))


@pytest.mark.parametrize("kind", ["GIF", "PNG"])
def test_truncated_palette_image_is_broken_wherever_it_ends(kind: str) -> None:
    noise = Image.fromarray(np.random.default_rng(3).integers(0, 256, (20, 24, 3), dtype=np.uint8)).quantize(256)
    data = saved(noise, kind)
    assert is_greyscale(data) is False
    for length in range(0, len(data) - 12, 7):
        with pytest.raises(ValueError, match=r"is (empty|truncated|not an image)"):
            is_greyscale(data[:length])


@pytest.mark.parametrize("array", [COLOURED, GREY, GREY.astype(np.uint16) * 257, GREY >= 128])
@pytest.mark.parametrize("change", [lambda data: data[:-1], lambda data: data + b"\0", lambda data: data + data])
def test_ppm_of_another_length_is_rejected(tmp_path: Path, array: np.ndarray, change: Callable[[bytes], bytes]) -> None:
    data = saved(Image.fromarray(array), "PPM")
    image_format = ImageFormat(8, "RGB", require_size)
    read(tmp_path, data, image_format)
    read(tmp_path, data.replace(b"8 8", b"# a comment\n8\t8", 1), image_format)
    with pytest.raises(UnreadableFileError, match=r"truncated or damaged: it has \d+ bytes of pixels, and 8x8 need"):
        read(tmp_path, change(data), image_format)


def test_ppm_as_text(tmp_path: Path) -> None:
    text = "P2 # grey\n8 8 255\n" + " ".join(map(str, GREY.flatten()))
    assert np.array_equal(read(tmp_path, text.encode(), ImageFormat(8, "L", require_size))[..., 0], GREY)


TEXTS = {
    "P1": b"P1 8 8\n" + b"\n".join(b"10 # one and none\n010101" for _ in range(8)),
    "P2": b"P2 8 8 255\n" + b" ".join(b"%d" % value for value in GREY.flatten()) + b"\n# the end",
    "P3": b"P3 8 8 255\n" + b"\t".join(b"%d" % value for value in COLOURED.flatten()) + b"\r\n",
}


@pytest.mark.parametrize("data", TEXTS.values(), ids=TEXTS.keys())
def test_ppm_as_text_with_a_number_too_many_or_too_few_is_rejected(tmp_path: Path, data: bytes) -> None:
    image_format = ImageFormat(8, "RGB", require_size)
    read(tmp_path, data, image_format)
    for damaged in (data + b"\n1", data.replace(b"8 8", b"8 7", 1), data.replace(b"8 8", b"9 8", 1)):
        with pytest.raises(
            UnreadableFileError, match=r"truncated or damaged: it has \d+ numbers, and \dx\d pixels need"
        ):
            read(tmp_path, damaged, image_format)


LONG_HEADERS = {
    "markers": b"\xff\xd8" + b"\xff" * 4_000_000,
    "markers and an end": b"\xff\xd8" + b"\xff" * 4_000_000 + b"\x00\xff\xd9",
    "compressed data": b"\xff\xd8" + b"\xff\x00" * 4_000_000 + b"\xff\xd9",
    "segments": b"\xff\xd8" + b"\xff\xe0\x00\x02" * 2_000_000 + b"\xff\xd9",
    "spaces": b"P6" + b" " * 20_000_000,
    "comments": b"P6" + b"#\n" * 10_000_000,
    "comments between pixels": b"P3 1000 1000 255\n" + b"#\n" * 5_000_000,
    "unusual depth": b"P5 5000 5000 100\n" + bytes(25_000_000),
    "blocks": b"GIF89a" + bytes(7) + b"!\xfe" + b"\x01a" * 5_000_000 + b"\0;",
    "chunks": b"\x89PNG\r\n\x1a\n" + (b"\0\0\0\0tEXt" + zlib.crc32(b"tEXt").to_bytes(4, "big")) * 1_000_000,
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", LONG_HEADERS)
def test_long_headers_are_refused_at_once(tmp_path: Path, name: str) -> None:
    with pytest.raises(UnreadableFileError, match=r"image\.png"):
        read(tmp_path, LONG_HEADERS[name], ImageFormat(8, "RGB", stretch_to_square))


def with_more_scans(data: bytes, copies: int) -> bytes:
    """A progressive JPEG whose last scan is there so many times: some bytes each, but all pixels are visited."""
    last = data.rindex(b"\xff\xda")
    return data[:last] + data[last:-2] * copies + data[-2:]


def test_a_jpeg_of_many_scans_is_refused_before_they_are_decoded(tmp_path: Path) -> None:
    data = saved(Image.new("L", (4000, 4000)), "JPEG", progressive=True)
    image_format = ImageFormat(8, "L", stretch_to_square)
    assert not read(tmp_path, with_more_scans(data, 20), image_format).any()
    with pytest.raises(UnreadableFileError, match=r"image\.png has \d+ scans of 16000000 pixels: more than") as caught:
        read(tmp_path, with_more_scans(data, 3000), image_format)
    assert "\n" not in str(caught.value)


LARGE = """
import resource, sys
from pathlib import Path
from eigen_reptile.data.io.archives import FolderSource, UnreadableFileError
from eigen_reptile.data.io.images import ImageFormat, read_image, stretch_to_square
folder = Path(sys.argv[1])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for path in sorted(folder.iterdir()):
    try:
        read_image(FolderSource(folder, 1), path.name, ImageFormat(8, "RGB", stretch_to_square))
    except UnreadableFileError as error:
        assert "pixels large" in str(error), error
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    print(path.name, grown >> 10)
    assert grown < 500 << 10, (path, grown)
"""


@pytest.mark.timeout(200)
def test_large_images_take_little_memory(tmp_path: Path) -> None:
    """Small files of many pixels, of as many bytes as Pillow has for a pixel."""
    for mode, kind in (("I;16", "png"), ("LA", "png"), ("RGBA", "png"), ("P", "gif"), ("RGB", "bmp"), ("RGB", "webp")):
        side = 4096 if kind == "webp" else 7810
        Image.new(mode, (side, side)).save(tmp_path / f"image {mode}.{kind}")
    done = subprocess.run([sys.executable, "-c", LARGE, str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]


@pytest.mark.parametrize("options", [{}, {"lossless": True}, {"exif": b"Exif\0\0"}])
def test_size_of_a_webp_file_is_checked_before_it_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    """Opened, a file of 700 bytes that claims the largest size takes more than a GiB."""
    data = saved(Image.new("RGB", (40, 30)), "WEBP", **options)
    read(tmp_path, data, ImageFormat(8, "RGB", stretch_to_square))
    monkeypatch.setattr("eigen_reptile.data.io.image_checks.MAX_WEBP_PIXELS", 1199)
    monkeypatch.setattr(Image, "open", lambda *_, **__: pytest.fail("it was opened"))
    with pytest.raises(UnreadableFileError, match="40x30 pixels large"):
        read(tmp_path, data, ImageFormat(8, "RGB", stretch_to_square))


@pytest.mark.parametrize("mode", ["L", "RGB"])
def test_conversion_in_strips_gives_the_same_pixels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: Literal["L", "RGB"]
) -> None:
    rgba = np.random.default_rng(5).integers(0, 256, (40, 30, 4), dtype=np.uint8)
    palette = Image.fromarray(rgba[..., :3]).quantize(30)
    images = [saved(Image.fromarray(rgba)), saved(palette, transparency=3)]
    images += [saved(Image.fromarray(rgba[..., 0].astype(np.uint16) * 200)), saved(Image.fromarray(rgba[..., 0] > 90))]
    image_format = ImageFormat(20, mode, stretch_to_square)
    whole = [read(tmp_path, data, image_format) for data in images]
    monkeypatch.setattr("eigen_reptile.data.io.images.STRIP_PIXELS", 100)
    for data, expected in zip(images, whole, strict=True):
        assert np.array_equal(read(tmp_path, data, image_format), expected)
