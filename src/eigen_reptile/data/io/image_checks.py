"""Check the structure of an image file in one pass before it is given to Pillow.

Pillow fills up what is missing from some truncated files, and can take minutes for a header of a few million bytes.
Every check raises a ValueError that says what is wrong with the file.
"""

import re
import zlib
from collections.abc import Callable

MAX_SEGMENTS = 10_000
"""Limit for the segments, chunks or blocks of a file."""
MAX_METADATA = 1 << 20
"""Limit for the bytes in front of the pixels where Pillow is slow in reading them."""
MAX_HEADER = 1000
"""Limit for the header of a PPM file, and for bytes between two segments of a JPEG file that belong to neither."""
MAX_COMMENTS = 100
"""Limit for the comments of a PPM file that consists of text."""
MAX_SLOW_BYTES = 1 << 24
"""Limit for files that Pillow decodes in Python."""

MAX_SCANNED_PIXELS = 1 << 31
"""Limit for the pixels of a JPEG file times its scans: each scan, of a few bytes, visits all pixels."""
MAX_WEBP_PIXELS = 1 << 24
"""Limit for WebP, whose decoder takes four times as much memory as others, most of it when a file is opened."""

TRUNCATED = "is truncated or damaged"


def check_structure(data: bytes) -> None:
    """Whether a file of one of these types is complete; other types are left to Pillow."""
    for start, check in _CHECKS.items():
        if data.startswith(start):
            check(data)


def _check_png(data: bytes) -> None:
    """All chunks up to the last must be present and match their checksums."""
    start = 8
    for _ in range(MAX_SEGMENTS):
        end = start + 8 + int.from_bytes(data[start : start + 4], "big")
        if len(data) < end + 4 or zlib.crc32(data[start + 4 : end]) != int.from_bytes(data[end : end + 4], "big"):
            raise ValueError(TRUNCATED)
        if data[start + 4 : start + 8] == b"IEND":
            return
        start = end + 4
    raise ValueError(f"has more than {MAX_SEGMENTS} chunks")


_JPEG_MARKER = re.compile(rb"\xff([^\x00\xff\xd0-\xd7])", re.DOTALL)
"""Starts a segment. Within compressed data, FF is followed by 00 or by one of the restart markers D0 to D7."""
_JPEG_FRAMES = {bytes([code]) for code in range(0xC0, 0xD0)} - {b"\xc4", b"\xc8", b"\xcc"}
"""Start the segments that have the height and the width."""


def _check_jpeg(data: bytes) -> None:
    """The end marker must be present; that of a thumbnail, which is inside a segment, does not count."""
    position, scans, pixels = 2, 0, 0
    for _ in range(MAX_SEGMENTS):
        marker = _JPEG_MARKER.search(data, position)
        if not marker or (not scans and marker.start() > position + MAX_HEADER):
            raise ValueError(TRUNCATED)
        if marker[1] == b"\xd9":
            return
        if marker[1] in _JPEG_FRAMES:
            height, width = data[marker.end() + 3 : marker.end() + 5], data[marker.end() + 5 : marker.end() + 7]
            pixels = max(pixels, int.from_bytes(height, "big") * int.from_bytes(width, "big"))
        scans += marker[1] == b"\xda"
        if scans * pixels > MAX_SCANNED_PIXELS:
            raise ValueError(f"has {scans} scans of {pixels} pixels: more than {MAX_SCANNED_PIXELS} in total")
        position = marker.end() + int.from_bytes(data[marker.end() : marker.end() + 2], "big")
    raise ValueError(f"has more than {MAX_SEGMENTS} segments")


def _check_gif(data: bytes) -> None:
    """All blocks up to the trailer must be present, among them an image."""
    try:
        position, images = 13 + _gif_palette_bytes(data[10]), 0
        for _ in range(MAX_SEGMENTS):
            if data[position] == ord("!"):
                position = _after_gif_blocks(data, position + 2)
            elif data[position] == ord(","):
                position = _after_gif_blocks(data, position + 11 + _gif_palette_bytes(data[position + 9]))
                images += 1
            elif data[position] == ord(";") and images:
                return
            else:
                raise ValueError(TRUNCATED)
            if position > MAX_METADATA and not images:
                break
    except IndexError as error:
        raise ValueError(TRUNCATED) from error
    raise ValueError("has too many blocks")


def _gif_palette_bytes(flags: int) -> int:
    return 3 << (flags & 7) + 1 if flags & 0x80 else 0


def _after_gif_blocks(data: bytes, position: int) -> int:
    while data[position]:
        position += data[position] + 1
    return position + 1


_SPACE = rb"(?:[ \t-\r]|#[^\r\n]*[\r\n])+"
_PPM_HEADER = re.compile(
    rb"P(?:(?P<bits>[14])%b(\d{1,9})%b(\d{1,9})|[2356]%b(\d{1,9})%b(\d{1,9})%b(\d{1,5}))[ \t-\r]" % ((_SPACE,) * 5)
)
_MARKED = bytes(ord(" ") if bytes([code]).isspace() else ord("x") for code in range(256))
"""Turns spaces of all kinds into one, and all other characters into another."""


def _check_ppm(data: bytes) -> None:
    """After its header, a binary file must have exactly the bytes of its pixels, and a text as many numbers."""
    header = _PPM_HEADER.match(data[:MAX_HEADER])
    if not header:
        raise ValueError("is not an image of a known type: its header is damaged")
    if data[1] in b"123":
        if len(data) > MAX_SLOW_BYTES:
            raise ValueError(f"has {len(data)} bytes, more than the {MAX_SLOW_BYTES} allowed for this type")
        if data.count(b"#") > MAX_COMMENTS:
            raise ValueError(f"has more than {MAX_COMMENTS} comments")
        _check_ppm_numbers(data, header)
        return
    width, height = int(header[2] or header[4]), int(header[3] or header[5])
    if header["bits"]:
        expected = -(-width // 8) * height
    else:
        channels, bytes_each = (3 if data[1] == ord("6") else 1), (1 if int(header[6]) < 256 else 2)
        expected = width * height * channels * bytes_each
    if len(data) - header.end() != expected:
        raise ValueError(
            f"is truncated or damaged: it has {len(data) - header.end()} bytes of pixels, and {width}x{height} need "
            f"{expected}"
        )


def _check_ppm_numbers(data: bytes, header: re.Match[bytes]) -> None:
    """A text must have one number for each pixel and channel; those of one bit need no spaces between them."""
    width, height = int(header[2] or header[4]), int(header[3] or header[5])
    text = b" " + re.sub(rb"#[^\r\n]*", b"", data[header.end() :]).translate(_MARKED)
    found = text.count(b"x" if header["bits"] else b" x")
    expected = width * height * (3 if data[1] == ord("3") else 1)
    if found != expected:
        raise ValueError(
            f"is truncated or damaged: it has {found} numbers, and {width}x{height} pixels need {expected}"
        )


def _check_webp(data: bytes) -> None:
    """The size that the first chunk claims must be allowed; what is no WebP file is left to Pillow."""
    numbers = [int.from_bytes(data[start:stop], "little") for start, stop in _WEBP_SIZES.get(data[8:16], ())]
    match data[12:16], numbers:
        case b"VP8 ", [width, height]:
            width, height = width & 0x3FFF, height & 0x3FFF
        case b"VP8L", [bits]:
            width, height = 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
        case b"VP8X", [width, height]:
            width, height = 1 + width, 1 + height
        case _:
            return
    if width * height > MAX_WEBP_PIXELS:
        raise ValueError(f"claims to be {width}x{height} pixels large: more than {MAX_WEBP_PIXELS} pixels in total")


_WEBP_SIZES: dict[bytes, tuple[tuple[int, int], ...]] = {
    b"WEBPVP8 ": ((26, 28), (28, 30)),
    b"WEBPVP8L": ((21, 25),),
    b"WEBPVP8X": ((24, 27), (27, 30)),
}
"""Where each kind of first chunk has the width and the height."""

_CHECKS: dict[bytes, Callable[[bytes], None]] = {
    b"\x89PNG\r\n\x1a\n": _check_png,
    b"\xff\xd8": _check_jpeg,
    b"GIF8": _check_gif,
    b"P": _check_ppm,
    b"RIFF": _check_webp,
}
