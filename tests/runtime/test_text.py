"""Text that a terminal would obey is escaped; other text is not changed."""

import os

import pytest

from eigen_reptile.runtime.text import printable


@pytest.mark.parametrize("text", ["", "stop sign", "Stoppschild für Züge", "停止", "a|b<c>[d]$e$", "\N{SNOWMAN}"])
def test_ordinary_text_is_not_changed(text: str) -> None:
    assert printable(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred\x07", r"\x1b[31mred\x07"),
        ("two\nlines\r", r"two\nlines\r"),
        ("\u202eleft", r"\u202eleft"),
        (os.fsdecode(b"a\xff"), r"a\udcff"),
        ("\x9b2J", r"\x9b2J"),
    ],
)
def test_control_characters_and_bytes_that_are_not_text_are_escaped(text: str, shown: str) -> None:
    assert printable(text) == shown
    assert printable(text).encode()
