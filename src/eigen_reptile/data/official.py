"""Data sets that others have defined: which classes they have, and where they can be had."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import pooch

from eigen_reptile.data.bank import DataError, Split
from eigen_reptile.data.cache import SPLITS, cache_folder
from eigen_reptile.data.packing import Classes
from eigen_reptile.progress import Announce, Report

CHUNK = 1 << 18


def class_lists(name: str) -> dict[Split, tuple[str, ...]]:
    """The classes of official splits, from the lists that come with the package."""
    folder = files("eigen_reptile.data") / "splits"
    return {split: tuple((folder / f"{name}_{split}.txt").read_text("utf-8").split()) for split in SPLITS}


@dataclass(frozen=True)
class Official:
    """What a data set must consist of."""

    title: str
    classes: Mapping[Split, Sequence[str]]
    """Paths of the folders of the classes. Those of several components lose the first when they become names."""
    per_class: int
    """Pictures of each class."""
    advice: str = "get it anew"
    """What to do if classes have another number of pictures."""

    def arrange(self, found: Classes, where: Path) -> dict[Split, Classes]:
        """What was found there, by splits; DataError unless it is just what there should be."""
        expected = [name for names in self.classes.values() for name in names]
        missing = [name for name in expected if not found.get(name)]
        if missing:
            raise DataError(
                f"{where} is not the whole of {self.title}: it lacks {len(missing)} of {len(expected)} classes "
                f"({_some(missing)}); get it anew"
            )
        unknown = sorted({name for name, pictures in found.items() if pictures}.difference(expected))
        if unknown:
            raise DataError(f"{where} is not {self.title}: it has classes that do not belong to it ({_some(unknown)})")
        wrong = [f"{name} has {len(found[name])}" for name in expected if len(found[name]) != self.per_class]
        if wrong:
            raise DataError(
                f"{where} is not the whole of {self.title}: each class must have {self.per_class} pictures, but "
                f"{_some(wrong)}; {self.advice}"
            )
        return {split: {name.split("/", 1)[-1]: found[name] for name in names} for split, names in self.classes.items()}


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if names[5:] else "")


def fetch(url: str, md5: str, home: Path, announce: Announce) -> Path:
    """The file at this address, from the cache if it was downloaded before; it got there only with the right checksum.

    `home` is where the user could put it instead.
    """
    folder, name = cache_folder() / "downloads", url.rsplit("/", 1)[-1]
    if (folder / name).exists():
        return folder / name
    pooch.get_logger().setLevel(logging.WARNING)  # below that it prints
    download = pooch.HTTPDownloader(progressbar=_Progress(announce, f"downloading {name}"), chunk_size=CHUNK)
    try:
        return Path(pooch.retrieve(url, f"md5:{md5}", fname=name, path=folder, downloader=download))
    except (ValueError, OSError) as error:  # those of the network are OSErrors too, with long texts
        reason = "wrong checksum" if isinstance(error, ValueError) else error.strerror or type(error).__name__
        raise DataError(f"cannot download {url} ({reason}): put that file into {home} by other means") from error


class _Progress:
    """Passes on what pooch tells to a progress bar."""

    def __init__(self, announce: Announce, name: str) -> None:
        self.total = 0
        self._announce, self._name = announce, name
        self._done = 0
        self._report: Report | None = None

    def update(self, amount: int) -> None:
        if self._report is None:
            self._report = self._announce(self._name, self.total)
        self._done = min(self._done + amount, self.total)
        self._report(self._done, {})

    def reset(self) -> None:
        self._done = 0

    def close(self) -> None:
        """The last update has told that it is done."""
