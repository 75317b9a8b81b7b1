"""Files are written as a whole, into a new file, and durably."""

import fcntl
import os
import stat
import subprocess
import sys
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


KILLED = """
import os, signal, sys
from pathlib import Path
from eigen_reptile.runtime.files import write_atomically
os.fsync = lambda descriptor: (print("writing", flush=True), sys.stdin.read(), os.kill(os.getpid(), signal.SIGKILL))
write_atomically(Path(sys.argv[1]), b"half")
"""


def test_what_a_killed_process_has_left_is_removed_but_not_what_is_being_written(tmp_path: Path) -> None:
    file = tmp_path / "[1] result.json"
    other = tmp_path / ".result.json.0123456789abcdef.tmp"
    other.touch()
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, str(file)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        (begun,) = set(tmp_path.iterdir()) - {other}
        write_atomically(file, b"new")
        assert set(tmp_path.iterdir()) == {begun, file, other}
        process.communicate()
    write_atomically(file, b"newer")
    assert set(tmp_path.iterdir()) == {file, other}
    assert file.read_bytes() == b"newer"


def test_a_temporary_file_that_vanishes_before_it_is_locked_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process takes it for a leftover."""
    lock, removed = fcntl.flock, list[Path]()

    def remove_and_lock(descriptor: int, operation: int) -> None:
        if not removed:
            removed.extend(tmp_path.iterdir())
            removed[0].unlink()
        lock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", remove_and_lock)
    write_atomically(tmp_path / "result.json", b"new")
    assert removed
    assert [path.name for path in tmp_path.iterdir()] == ["result.json"]


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
