"""Text from files and their names, made harmless before it is shown."""

FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
"""What starts with one of these is a formula for some spreadsheet."""


def printable(text: str) -> str:
    """The text with backslash escapes in place of control characters, which a terminal would obey, of characters that
    change the direction of writing, and of bytes that are not UTF-8."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode() for character in text
    )


def path_cell(path: str) -> str:
    """A path in a table for spreadsheets: one that looks like a formula gets a ./ in front."""
    return f"./{path}" if path.startswith(FORMULA) else path


def name_cell(name: str) -> str:
    """A name in a table for spreadsheets: one that looks like a formula gets a quotation mark in front."""
    return f"'{name}" if name.startswith(FORMULA) else name
