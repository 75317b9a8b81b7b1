"""Files are downloaded once, and only kept if their checksum matches."""

import functools
import hashlib
import http.server
import os
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from eigen_reptile.data.datasets import cifar, omniglot
from eigen_reptile.data.io.download import download
from eigen_reptile.errors import DataError
from eigen_reptile.runtime.progress import ReportProgress, no_progress


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EIGEN_REPTILE_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    (tmp_path / "web").mkdir()
    (tmp_path / "web" / "set.zip").write_bytes(b"content")

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:
            pass

    handler = functools.partial(Quiet, directory=str(tmp_path / "web"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()


def test_download_is_checked_cached_and_reported(
    server: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    progress: list[tuple[str, int, int]] = []

    def start_progress(name: str, total: int) -> ReportProgress:
        return lambda done, numbers: progress.append((name, total, done))

    sha256 = hashlib.sha256(b"content").hexdigest()
    folder = tmp_path / "folder"
    with pytest.raises(DataError, match=rf"cannot download {server}/set\.zip \(wrong checksum\): .* into {folder}"):
        download(f"{server}/set.zip", "0" * 64, folder, start_progress)
    with pytest.raises(DataError, match=r"no\.zip \(HTTPError\)"):
        download(f"{server}/no.zip", sha256, folder, start_progress)
    progress.clear()
    file = download(f"{server}/set.zip", sha256, folder, start_progress)
    assert file.read_bytes() == b"content"
    assert progress[-1] == ("downloading set.zip", 7, 7)
    (tmp_path / "web" / "set.zip").unlink()
    assert download(f"{server}/set.zip", sha256, folder, start_progress) == file
    assert capfd.readouterr() == ("", "")


def test_checksum_of_a_file_in_the_cache_is_compared_every_time(server: str, tmp_path: Path) -> None:
    sha256 = hashlib.sha256(b"content").hexdigest()
    file = download(f"{server}/set.zip", sha256, tmp_path, no_progress)
    about = file.stat()
    file.write_bytes(b"CONTENT")
    os.utime(file, ns=(about.st_atime_ns, about.st_mtime_ns))
    assert download(f"{server}/set.zip", sha256, tmp_path, no_progress).read_bytes() == b"content"
    file.write_bytes(b"CONTENT")
    (tmp_path / "web" / "set.zip").write_bytes(b"other")
    with pytest.raises(DataError, match="wrong checksum"):
        download(f"{server}/set.zip", sha256, tmp_path, no_progress)


def test_published_checksums_are_sha256() -> None:
    for checksum in (cifar.SHA256, *omniglot.PARTS.values()):
        assert re.fullmatch("[0-9a-f]{64}", checksum)
