"""Text from files and their names, made harmless before it is shown."""


def printable(text: str) -> str:
    """The text with backslash escapes in place of control characters, which a terminal would obey, of characters that
    change the direction of writing, and of bytes that are not UTF-8."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode() for character in text
    )
