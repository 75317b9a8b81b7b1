"""Images: damaged files of all formats, and files whose parts are well-formed but contradict each other."""

import io
import random
import struct
import zlib
from functools import cache
from pathlib import Path

import numpy as np
from PIL import Image

from eigen_reptile.data.io.archives import FolderSource, UnreadableFileError
from eigen_reptile.data.io.images import ImageFormat, is_greyscale, read_image, stretch_to_square
from siege.mutate import NUMBERS, mutated
from siege.readers.refusal import outcome_of

FORMS = (
    ("PNG", "L"), ("PNG", "RGB"), ("PNG", "RGBA"), ("PNG", "P"), ("PNG", "1"), ("PNG", "I;16"), ("JPEG", "RGB"),
    ("JPEG", "L"), ("JPEG", "CMYK"), ("WEBP", "RGB"), ("BMP", "RGB"), ("BMP", "P"), ("GIF", "P"), ("GIF", "L"),
    ("PPM", "RGB"), ("PPM", "L"), ("TIFF", "RGB"), ("TIFF", "L"), ("TIFF", "F"),
)  # fmt: skip
SIDES = (1, 2, 100, 8192, 8193, 65_535, 2**26, 2**31 - 1)


Picture = tuple[str, bytes]
"""The suffix of a file, and its content."""


def damaged(rng: random.Random, folder: Path) -> str:
    return _read(rng, folder, damaged_picture(rng))


def generated(rng: random.Random, folder: Path) -> str:
    return _read(rng, folder, generated_picture(rng))


def damaged_picture(rng: random.Random) -> Picture:
    kind, mode = rng.choice(FORMS)
    return kind.lower(), mutated(rng, _image(kind, mode, rng.choice((3, 20))))


def generated_picture(rng: random.Random) -> Picture:
    """PNGs with right checksums and wrong content, JPEGs with runs of marks, and headers that claim huge sizes."""
    make = rng.choice((_png, _png, _jpeg, _ppm, _gif, _bmp, _tiff))
    return make.__name__[1:], make(rng)


def _read(rng: random.Random, folder: Path, picture: Picture) -> str:
    suffix, data = picture
    name = f"x.{suffix}"
    (folder / name).write_bytes(data)
    outcome_of(lambda: is_greyscale(data), ValueError)
    image_format = ImageFormat(rng.choice((8, 84)), rng.choice(("L", "RGB")), stretch_to_square)
    return outcome_of(lambda: read_image(FolderSource(folder, depth=1), name, image_format), UnreadableFileError)


@cache
def _image(kind: str, mode: str, side: int) -> bytes:
    pixels = np.random.default_rng(side).integers(0, 256, size=(side, side, 3), dtype=np.uint8)
    image = Image.fromarray(pixels)
    stream = io.BytesIO()
    (image.convert("L").convert(mode) if mode in ("I;16", "F") else image.convert(mode)).save(stream, kind)
    return stream.getvalue()


def _png(rng: random.Random) -> bytes:
    width, height = _sides(rng)
    depth, colours = rng.choice((1, 2, 4, 8, 16, 3)), rng.choice((0, 2, 3, 4, 6, 1))
    # Compressed zeros make large images of small files, but take a moment to make.
    size = min(width * height * 8, 1 << 27 if rng.random() < 0.01 else 1 << 16)
    chunks = [
        (b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colours, 0, 0, rng.randrange(2))),
        *[(b"PLTE", bytes(rng.choice((3, 768, 4, 0))))] * (colours == 3 or rng.random() < 0.1),
        *[(b"tRNS", bytes(rng.choice((1, 2, 6, 256))))] * (rng.random() < 0.3),
        *[(rng.choice((b"iCCP", b"zTXt", b"iTXt", b"eXIf", b"acTL", b"fcTL")), _zipped_text(rng))]
        * (rng.random() < 0.3),
        (b"IDAT", _zipped_zeros(size)),
        (b"IEND", b""),
    ]
    if rng.random() < 0.2:
        rng.shuffle(chunks)
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(rng, name, data) for name, data in chunks)


def _zipped_text(rng: random.Random) -> bytes:
    return b"name\x00\x00" + _zipped_zeros(rng.choice((10, 1 << 20, 1 << 24)))


@cache
def _zipped_zeros(size: int) -> bytes:
    return zlib.compress(bytes(size), 1)


def _chunk(rng: random.Random, name: bytes, data: bytes) -> bytes:
    length = len(data) if rng.random() < 0.95 else rng.choice(NUMBERS) % 2**32
    return struct.pack(">I", length) + name + data + struct.pack(">I", zlib.crc32(name + data))


def _jpeg(rng: random.Random) -> bytes:
    """A JPEG with marks inserted: fills, restarts, thumbnails, wrong lengths."""
    data = _image("JPEG", "RGB", 20)
    run = rng.choice(
        (b"\xff", b"\xff\xff\x00", b"\xff\xd0", b"\xff\xe1\x00\x02", b"\xff\xd8", b"\xff\xe2\x00\x00", b"\xff\xfe")
    )
    place = rng.randrange(2, len(data))
    return data[:place] + run * rng.choice((1, 10, 1000, 100_000)) + data[place:]


def _ppm(rng: random.Random) -> bytes:
    width, height = _sides(rng)
    most = rng.choice((255, 1, 65_535, 0, 10**9))
    body = bytes(rng.choice((0, 3, width * height * 3 % 5000, max(0, width * height * 3 % 5000 - 1))))
    return b"P%d %d %d %d\n" % (rng.randint(1, 7), width, height, most) + body


def _gif(rng: random.Random) -> bytes:
    width, height = (side % 65_536 for side in _sides(rng))
    frame = (
        b","
        + struct.pack("<HHHHB", 0, 0, width, height, rng.choice((0, 0x80, 0x87)))
        + rng.randbytes(rng.choice((0, 6)))
    )
    data = b"".join(bytes([len(block)]) + block for block in (rng.randbytes(rng.randrange(1, 99)) for _ in range(4)))
    palette = rng.randbytes(rng.choice((768, 768, 30, 0)))
    return b"GIF89a" + struct.pack("<HHBBB", width, height, 0xF7, 0, 0) + palette + frame + b"\x08" + data + b"\x00;"


def _bmp(rng: random.Random) -> bytes:
    width, height = _sides(rng)
    header = struct.pack(
        "<IiiHHIIiiII", 40, width % 2**31, rng.choice((1, -1)) * (height % 2**31), 1, rng.choice((1, 4, 8, 16, 24, 32)),
        rng.randrange(4), 0, 0, 0, rng.choice((0, 2, 256, 2**31)), 0,
    )  # fmt: skip
    return (
        b"BM"
        + struct.pack("<IHHI", rng.choice(NUMBERS) % 2**32, 0, 0, rng.choice((54, 0, 2**31)))
        + header
        + bytes(2000)
    )


def _tiff(rng: random.Random) -> bytes:
    """A little-endian TIFF with a directory of odd entries."""
    width, height = _sides(rng)
    entries = [
        (256, 4, 1, width),
        (257, 4, 1, height),
        (258, 3, 1, rng.choice((1, 8, 16, 32))),
        (259, 3, 1, rng.choice((1, 5, 7, 8))),
    ]
    entries += [
        (262, 3, 1, rng.randrange(7)),
        (273, 4, 1, 200),
        (277, 3, 1, rng.choice((1, 3, 4))),
        (278, 4, 1, height),
    ]
    entries += [(279, 4, rng.choice((1, 1, 2**31)), rng.choice((100, *NUMBERS)) % 2**32)]
    entries += [(rng.randrange(65_536), rng.randrange(14), rng.choice(NUMBERS) % 2**32, rng.choice(NUMBERS) % 2**32)]
    directory = b"".join(struct.pack("<HHII", *(part % 2**32 for part in entry)) for entry in sorted(entries))
    following = rng.choice((0, 0, 8))
    return (
        b"II*\x00\x08\x00\x00\x00"
        + struct.pack("<H", len(entries))
        + directory
        + struct.pack("<I", following)
        + bytes(400)
    )


def _sides(rng: random.Random) -> tuple[int, int]:
    return rng.choice(SIDES), rng.choice(SIDES)
