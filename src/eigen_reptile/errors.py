"""The three ways in which a request can fail. Every message names the field, the bad value and what is allowed.

A field is written as in Python, between backquotes: `task.shots`. The command line turns it into its flag.
"""

from typing import final


@final
class ConfigError(ValueError):
    """A setting is wrong, contradicts another one, or names a folder that cannot be used."""


@final
class DataError(Exception):
    """A data set is missing, damaged, or cannot supply the tasks that were asked for."""


@final
class RunError(Exception):
    """Training, evaluation or reading a finished run failed."""
