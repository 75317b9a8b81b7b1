"""Download a file into the cache."""

import logging
from pathlib import Path
from typing import final

import pooch

from eigen_reptile.data.io.cache import cache_folder
from eigen_reptile.errors import DataError
from eigen_reptile.runtime.progress import ReportProgress, StartProgress

CHUNK = 1 << 18
"""Bytes that are downloaded between two progress updates."""


def download(url: str, sha256: str, data_set_folder: Path, start_progress: StartProgress) -> Path:
    """The file at this address, from the cache if it was downloaded before.

    Its checksum is compared every time: a file in the cache that does not match is downloaded again, and a download
    that does not match is an error. `data_set_folder` is where the user can put the file instead; the error message
    names it.
    """
    folder, name = cache_folder() / "downloads", url.rsplit("/", 1)[-1]
    pooch.get_logger().setLevel(logging.WARNING)  # at lower levels it prints
    downloader = pooch.HTTPDownloader(progressbar=_Progress(start_progress, f"downloading {name}"), chunk_size=CHUNK)
    try:
        return Path(pooch.retrieve(url, f"sha256:{sha256}", fname=name, path=folder, downloader=downloader))
    except (ValueError, OSError) as error:  # network errors are OSErrors too, with long messages
        reason = "wrong checksum" if isinstance(error, ValueError) else error.strerror or type(error).__name__
        raise DataError(
            f"cannot download {url} ({reason}): download it by other means and put it into {data_set_folder}"
        ) from error


@final
class _Progress:
    """Forwards pooch's progress to a progress bar of the caller."""

    def __init__(self, start_progress: StartProgress, name: str) -> None:
        self.total = 0
        self._start_progress, self._name = start_progress, name
        self._done = 0
        self._report: ReportProgress | None = None

    def update(self, amount: int) -> None:
        if self._report is None:
            self._report = self._start_progress(self._name, self.total)
        self._done = min(self._done + amount, self.total)
        self._report(self._done, {})

    def reset(self) -> None:
        self._done = 0

    def close(self) -> None:
        """Nothing to do: the last update has already reported completion."""
