"""Files are read from folders and archives; malicious and damaged ones are rejected."""

import gzip
import os
import stat
import tarfile
import zipfile
from contextlib import suppress
from pathlib import Path

import pytest

from eigen_reptile.data.io.archives import FolderSource, Source, UnreadableFileError, ZipSource
from eigen_reptile.data.io.tar import TarSource
from eigen_reptile.errors import DataError
from image_files import write_files, write_tar

FILES = {"a/1.png": b"one", "a/2.png": b"two", "b/c/3.png": b"three"}


def zipped(file: Path, files: dict[str, bytes] = FILES, prefix: str = "") -> Path:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content in files.items():
            archive.writestr(prefix + path, content)
    return file


def contents(source: Source) -> dict[str, bytes]:
    return {path: source.read(path, 100) for path in source.paths if not path.endswith("/")}


def test_folder_zip_and_tar_have_the_same_contents(tmp_path: Path) -> None:
    assert contents(FolderSource(write_files(tmp_path / "folder", FILES), depth=3)) == FILES
    assert contents(ZipSource(zipped(tmp_path / "files.zip"))) == FILES
    assert contents(TarSource(write_tar(tmp_path / "files.tar.gz", FILES))) == FILES


@pytest.mark.parametrize(
    ("name", "prefix", "found"),
    [
        ("x.zip", "", True),
        ("x.zip", "x/", True),
        ("x.zip", "y/x/", True),
        ("y.zip", "y/x/", True),
        ("y.zip", "", False),
    ],
)
def test_zip_source_can_be_restricted_to_a_folder(tmp_path: Path, name: str, prefix: str, found: bool) -> None:
    source = ZipSource(zipped(tmp_path / name, prefix=prefix), "x")
    assert contents(source) == (FILES if found else {})


@pytest.mark.parametrize("form", ["folder", "zip", "tar"])
def test_fingerprint_changes_with_contents_and_names(tmp_path: Path, form: str) -> None:
    def fingerprint(files: dict[str, bytes]) -> str:
        sources: dict[str, Source] = {
            "folder": FolderSource(write_files(tmp_path / "folder", files), depth=3),
            "zip": ZipSource(zipped(tmp_path / "files.zip", files)),
            "tar": TarSource(write_tar(tmp_path / "files.tar.gz", files)),
        }
        return sources[form].fingerprint()

    fingerprints = [fingerprint(f) for f in (FILES, FILES | {"a/1.png": b"longer"}, FILES | {"a/4.png": b"new"})]
    assert len(set(fingerprints)) == 3


def test_fingerprint_of_a_folder_depends_on_times_and_names_of_its_files(tmp_path: Path) -> None:
    folder = write_files(tmp_path / "folder", FILES)
    before = FolderSource(folder, depth=3).fingerprint()
    assert FolderSource(folder, depth=3).fingerprint() == before
    about = (folder / "a/1.png").stat()
    os.utime(folder / "a/1.png", ns=(about.st_atime_ns, about.st_mtime_ns + 1))
    changed = FolderSource(folder, depth=3).fingerprint()
    assert changed != before
    (folder / "a/1.png").rename(folder / "a/5.png")
    assert FolderSource(folder, depth=3).fingerprint() not in (before, changed)


def test_fingerprint_distinguishes_files_with_equal_names_sizes_and_times(tmp_path: Path) -> None:
    """They are in another location, or were replaced later."""
    folders = [write_files(tmp_path / name, FILES) for name in ("one", "two")]
    archives = [zipped(folder.parent / f"{folder.name}.zip", FILES) for folder in folders]
    tars = [write_tar(folder.parent / f"{folder.name}.tgz", FILES) for folder in folders]
    for path in tmp_path.rglob("*"):
        os.utime(path, ns=(0, 0))

    def fingerprints() -> list[str]:
        sources = [
            *(FolderSource(folder, depth=3) for folder in folders),
            *map(ZipSource, archives),
            *map(TarSource, tars),
        ]
        return [source.fingerprint() for source in sources]

    before = fingerprints()
    assert len(set(before)) == 6
    for path in (folders[0] / "a/1.png", archives[0], tars[0]):
        path.write_bytes(path.read_bytes()[::-1])
        os.utime(path, ns=(0, 0))
    assert [ours == was for ours, was in zip(fingerprints(), before, strict=True)] == [False, True] * 3


def test_entries_that_are_not_readable_files_are_listed_and_rejected_when_read(tmp_path: Path) -> None:
    folder = write_files(tmp_path / "folder", FILES)
    (folder / "a/folder.png").mkdir()
    (folder / "a/link.png").symlink_to(tmp_path / "nowhere")
    (folder / "a/loop.png").symlink_to(folder / "a/loop.png")
    os.mkfifo(folder / "a/pipe.png")
    source = FolderSource(folder, depth=2)
    for name in ("folder", "link", "loop", "pipe"):
        assert f"a/{name}.png" in source.paths
        with pytest.raises(UnreadableFileError, match=rf"a/{name}\.png (is not a file|cannot be read)"):
            source.read(f"a/{name}.png", 100)
    with pytest.raises(UnreadableFileError, match=r"a/1\.png has 3 bytes, more than the 2 allowed"):
        source.read("a/1.png", 2)


def test_undecodable_file_name_can_be_reported(tmp_path: Path) -> None:
    folder = write_files(tmp_path / "folder", FILES)
    Path(os.fsdecode(os.fsencode(folder) + b"/a/\xff.png")).mkdir()
    source = FolderSource(folder, depth=2)
    assert source.fingerprint()
    (path,) = [path for path in source.paths if path not in (*FILES, "a/", "b/", "b/c")]
    with pytest.raises(UnreadableFileError) as caught:
        source.read(path, 100)
    assert str(caught.value).encode()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_missing_permission_is_reported(tmp_path: Path) -> None:
    folder = write_files(tmp_path / "folder", FILES)
    (folder / "a/1.png").chmod(0)
    with pytest.raises(UnreadableFileError, match=r"a/1\.png cannot be read: Permission denied"):
        FolderSource(folder, depth=2).read("a/1.png", 100)
    (folder / "a").chmod(0)
    with pytest.raises(DataError, match=r"cannot read the folder .*/a: Permission denied"):
        FolderSource(folder, depth=2).fingerprint()
    (folder / "a").chmod(0o700)


def test_links_to_folders_are_followed_unless_files_would_be_visited_twice(tmp_path: Path) -> None:
    folder, outside = write_files(tmp_path / "folder", FILES), write_files(tmp_path / "outside", {"9.png": b"nine"})
    (folder / "d").symlink_to(outside)
    assert contents(FolderSource(folder, depth=3)) == FILES | {"d/9.png": b"nine"}
    for target in (outside, folder, folder / "a", tmp_path):
        (folder / "e").symlink_to(target)
        with pytest.raises(DataError, match=r"folder/[de] is a link"):
            FolderSource(folder, depth=3).fingerprint()
        (folder / "e").unlink()


@pytest.mark.parametrize("name", ["../evil.png", "a/../../evil.png", "/etc/evil.png", "C:/evil.png", "..\\evil.png"])
def test_archive_member_that_points_outside_is_rejected(tmp_path: Path, name: str) -> None:
    for source in (
        ZipSource(zipped(tmp_path / "x.zip", {name: b""})),
        TarSource(write_tar(tmp_path / "x.tgz", {name: b""})),
    ):
        with pytest.raises(DataError, match="rejected as unsafe"):
            _ = source.paths
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.tgz", "x.zip"]


def test_archive_members_without_a_proper_name(tmp_path: Path) -> None:
    """The entry of the folder itself, which tar writes, is ignored; a file without a name is rejected."""
    with tarfile.open(tmp_path / "x.tgz", "w:gz") as tar:
        tar.add(write_files(tmp_path / "folder", FILES), ".")
    found = contents(TarSource(tmp_path / "x.tgz"))
    assert {path.removeprefix("./"): content for path, content in found.items()} == FILES
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.mkdir("./")
        archive.writestr("a/1.png", FILES["a/1.png"])
    assert "a/1.png" in ZipSource(tmp_path / "x.zip").paths
    with pytest.raises(DataError, match="rejected as unsafe"):
        _ = TarSource(write_tar(tmp_path / "y.tgz", {"": b"nameless"})).paths


def test_links_in_archives_are_rejected(tmp_path: Path) -> None:
    link = zipfile.ZipInfo("link.png")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr(link, "/etc/passwd")
    with tarfile.open(tmp_path / "x.tgz", "w:gz") as tar:
        member = tarfile.TarInfo("link.png")
        member.type, member.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(member)
    for source in (ZipSource(tmp_path / "x.zip"), TarSource(tmp_path / "x.tgz")):
        with pytest.raises(DataError, match="rejected as unsafe"):
            _ = source.paths


def test_zip_bomb_is_rejected(tmp_path: Path) -> None:
    source = ZipSource(zipped(tmp_path / "x.zip", {"bomb.png": bytes(10_000_000)}))
    with pytest.raises(UnreadableFileError, match=r"bomb\.png claims to have 10000000 bytes"):
        source.read("bomb.png", 1_000_000)
    with pytest.raises(UnreadableFileError, match=r"bomb\.png claims to unpack to 10000000 bytes from"):
        source.read("bomb.png", 100_000_000)


def test_zip_member_longer_than_it_claims_is_rejected(tmp_path: Path) -> None:
    data = zipped(tmp_path / "x.zip", {"x.png": bytes(1000)}).read_bytes()
    assert data.count((1000).to_bytes(4, "little")) == 2
    (tmp_path / "x.zip").write_bytes(data.replace((1000).to_bytes(4, "little"), (10).to_bytes(4, "little")))
    with pytest.raises(UnreadableFileError, match=r"x\.png cannot be read"):
        ZipSource(tmp_path / "x.zip").read("x.png", 100)


def test_tar_bomb_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eigen_reptile.data.io.tar.MAX_TAR_BYTES", 1_000_000)
    (tmp_path / "x.tgz").write_bytes(gzip.compress(bytes(2_000_000)))
    with pytest.raises(DataError, match="unpacks to more than"):
        _ = TarSource(tmp_path / "x.tgz").paths


@pytest.mark.parametrize("kept", [0, 1, 30, -100, -8, -4, -1])
def test_truncated_archive_is_rejected(tmp_path: Path, kept: int) -> None:
    files = {f"{number}.png": os.urandom(100) for number in range(20)}
    for source in (ZipSource(zipped(tmp_path / "x.zip", files)), TarSource(write_tar(tmp_path / "x.tgz", files))):
        source.location.write_bytes(source.location.read_bytes()[:kept])
        with pytest.raises(DataError, match=rf"{source.location.name} is not a complete"):
            _ = source.paths


def test_damaged_zip_member_is_rejected(tmp_path: Path) -> None:
    data = bytearray(zipped(tmp_path / "x.zip", {"x.png": os.urandom(100)}).read_bytes())
    data[60] ^= 1
    (tmp_path / "x.zip").write_bytes(data)
    with pytest.raises(UnreadableFileError, match=r"x\.png cannot be read"):
        ZipSource(tmp_path / "x.zip").read("x.png", 100)


def test_encrypted_or_duplicate_members_are_rejected(tmp_path: Path) -> None:
    data = bytearray(zipped(tmp_path / "x.zip", {"x.png": b"x"}).read_bytes())
    data[data.index(b"PK\x01\x02") + 8] |= 1
    (tmp_path / "x.zip").write_bytes(data)
    with pytest.raises(DataError, match="encrypted"):
        _ = ZipSource(tmp_path / "x.zip").paths
    with zipfile.ZipFile(tmp_path / "y.zip", "w") as archive:
        archive.writestr("x.png", b"1")
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("x.png", b"2")
    with pytest.raises(DataError, match="two files with the same name"):
        _ = ZipSource(tmp_path / "y.zip").paths


def test_same_name_written_differently_is_rejected(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr("a/x.png", b"1")
        archive.writestr("./a//x.png", b"2")
    with pytest.raises(DataError, match="two files with the same name"):
        _ = ZipSource(tmp_path / "x.zip").paths


def test_folder_named_like_an_image_in_a_zip_is_a_broken_image(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.mkdir("c0/x.png/")
    source = ZipSource(tmp_path / "x.zip")
    assert source.paths == ["c0/x.png/"]
    with pytest.raises(UnreadableFileError, match=r"c0/x\.png is not a file"):
        source.read("c0/x.png", 100)


def test_zip_whose_files_overlap_is_rejected(tmp_path: Path) -> None:
    """Many entries that share one compressed block would unpack to far more than the archive contains."""
    data = zipped(tmp_path / "x.zip", {"a.png": os.urandom(5000)}).read_bytes()
    start = data.index(b"PK\x01\x02")
    end = data.index(b"PK\x05\x06")
    entries = b"".join(data[start:end].replace(b"a.png", b"%c.png" % letter) for letter in b"abc")
    tail = data[end : end + 8] + b"\x03\0\x03\0" + len(entries).to_bytes(4, "little") + data[end + 16 :]
    (tmp_path / "x.zip").write_bytes(data[:start] + entries + tail)
    with pytest.raises(DataError, match="overlap"):
        _ = ZipSource(tmp_path / "x.zip").paths


@pytest.mark.timeout(60)
@pytest.mark.parametrize("target", ["/proc/self/environ", "/proc/self/pagemap", "/proc/kmsg", "/dev/zero", "/dev/tty"])
def test_link_to_a_file_that_is_not_on_a_disk_is_not_read(tmp_path: Path, target: str) -> None:
    folder = write_files(tmp_path / "folder", FILES)
    (folder / "a/link.png").symlink_to(target)
    with suppress(UnreadableFileError):
        assert FolderSource(folder, depth=2).read("a/link.png", 1 << 28) == b""


@pytest.mark.parametrize("target", ["/proc", "/proc/self/task", "/sys/kernel"])
def test_folder_that_is_not_on_a_disk_is_rejected(tmp_path: Path, target: str) -> None:
    folder = write_files(tmp_path / "folder", FILES)
    (folder / "link").symlink_to(target)
    with pytest.raises(DataError, match="no place for images"):
        _ = FolderSource(folder, depth=6).paths
    with pytest.raises(DataError, match="no place for images"):
        _ = FolderSource(Path(target), depth=6).paths


def test_file_longer_than_it_claims_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a file that grows while it is read, or one that the system makes up."""
    folder = write_files(tmp_path / "folder", FILES)
    true = os.fstat

    def claim_less(descriptor: int) -> os.stat_result:
        about = true(descriptor)
        return os.stat_result((*about[:6], about.st_size - 1, *about[7:]))

    monkeypatch.setattr(os, "fstat", claim_less)
    with pytest.raises(UnreadableFileError, match=r"a/1\.png does not have the 2 bytes"):
        FolderSource(folder, depth=2).read("a/1.png", 100)
