"""Files are written as a whole, into a new file, and durably."""

import os
import stat
import tracemalloc
from pathlib import Path

import pytest

from eigen_reptile.errors import RunError
from eigen_reptile.runtime.files import read_bytes, write_atomically


def test_planted_files_and_links_are_not_written_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if the name of the temporary file could be guessed."""
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    monkeypatch.setattr("secrets.token_hex", lambda size: "guessed")
    for name in (f".result.json.{os.getpid()}.tmp", ".result.json.guessed.tmp"):
        (tmp_path / name).symlink_to(victim)
    with pytest.raises(RunError, match=r"cannot write .*result\.json: File exists"):
        write_atomically(tmp_path / "result.json", b"new")
    assert victim.read_bytes() == b"precious"
    monkeypatch.undo()
    write_atomically(tmp_path / "result.json", b"new")
    assert (tmp_path / "result.json").read_bytes() == b"new"
    assert victim.read_bytes() == b"precious"


def test_link_in_place_of_the_file_is_replaced(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    victim.chmod(0o777)
    (tmp_path / "result.json").symlink_to(victim)
    before = os.umask(0o027)
    try:
        write_atomically(tmp_path / "result.json", b"new")
    finally:
        os.umask(before)
    assert victim.read_bytes() == b"precious"
    assert not (tmp_path / "result.json").is_symlink()
    assert stat.S_IMODE((tmp_path / "result.json").stat().st_mode) == 0o640


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664, 0o644])
def test_permissions_are_kept(tmp_path: Path, mode: int) -> None:
    file = tmp_path / "result.json"
    file.write_bytes(b"old")
    file.chmod(mode)
    write_atomically(file, b"new")
    assert file.read_bytes() == b"new"
    assert stat.S_IMODE(file.stat().st_mode) == mode


def test_folder_is_synced_after_the_rename(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[tuple[bool, list[str]]] = []

    def record(descriptor: int) -> None:
        is_folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        synced.append((is_folder, sorted(path.name for path in tmp_path.iterdir() if path.suffix != ".tmp")))

    monkeypatch.setattr(os, "fsync", record)
    write_atomically(tmp_path / "result.json", b"new")
    assert synced == [(False, []), (True, ["result.json"])]
    assert [path.name for path in tmp_path.iterdir()] == ["result.json"]


def test_reading_allocates_no_more_than_the_file_has(tmp_path: Path) -> None:
    file = tmp_path / "small"
    file.write_bytes(b"x" * 1000)
    tracemalloc.start()
    try:
        assert read_bytes(file, 2**31) == b"x" * 1000
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()
    with pytest.raises(RunError, match="small is too large: it has 1000 bytes, and at most 999 are read"):
        read_bytes(file, 999)
