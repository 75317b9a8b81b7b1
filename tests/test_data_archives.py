"""Files in folders and archives, hostile ones among them; and plain data from files that could run code."""

import gzip
import io
import os
import pickle
import stat
import tarfile
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eigen_reptile.data import plain
from eigen_reptile.data.archives import FolderSource, Source, TarSource, UnreadableError, ZipSource
from eigen_reptile.data.bank import DataError
from eigen_reptile.data.plain import read_plain

FILES = {"a/1.png": b"one", "a/2.png": b"two", "b/c/3.png": b"three"}


def fill(folder: Path, files: dict[str, bytes] = FILES) -> Path:
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    return folder


def zipped(file: Path, files: dict[str, bytes] = FILES, prefix: str = "") -> Path:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content in files.items():
            archive.writestr(prefix + path, content)
    return file


def tarred(file: Path, files: dict[str, bytes] = FILES) -> Path:
    with tarfile.open(file, "w:gz") as archive:
        for path, content in files.items():
            member = tarfile.TarInfo(path)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return file


def contents(source: Source) -> dict[str, bytes]:
    return {path: source.read(path, 100) for path in source.paths if not path.endswith("/")}


def test_all_forms_hold_the_same(tmp_path: Path) -> None:
    assert contents(FolderSource(fill(tmp_path / "folder"), depth=3)) == FILES
    assert contents(ZipSource(zipped(tmp_path / "files.zip"))) == FILES
    assert contents(TarSource(tarred(tmp_path / "files.tar.gz"))) == FILES


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
def test_folder_inside_a_zip(tmp_path: Path, name: str, prefix: str, found: bool) -> None:
    source = ZipSource(zipped(tmp_path / name, prefix=prefix), "x")
    assert contents(source) == (FILES if found else {})


@pytest.mark.parametrize("form", ["folder", "zip", "tar"])
def test_stamp_tells_of_every_change(tmp_path: Path, form: str) -> None:
    folder = fill(tmp_path / "folder")

    def stamp(files: dict[str, bytes]) -> str:
        if form == "folder":
            return FolderSource(fill(folder, files), depth=3).stamp()
        return (
            ZipSource(zipped(tmp_path / "files.zip", files)).stamp()
            if form == "zip"
            else TarSource(tarred(tmp_path / "files.tar.gz", files)).stamp()
        )

    stamps = [stamp(FILES), stamp(FILES | {"a/1.png": b"longer"}), stamp(FILES | {"a/4.png": b"new"})]
    assert len(set(stamps)) == 3


def test_stamp_of_a_folder_is_that_of_its_files(tmp_path: Path) -> None:
    folder = fill(tmp_path / "folder")
    before = FolderSource(folder, depth=3).stamp()
    assert FolderSource(folder, depth=3).stamp() == before
    about = (folder / "a/1.png").stat()
    os.utime(folder / "a/1.png", ns=(about.st_atime_ns, about.st_mtime_ns + 1))
    changed = FolderSource(folder, depth=3).stamp()
    assert changed != before
    (folder / "a/1.png").rename(folder / "a/5.png")
    assert FolderSource(folder, depth=3).stamp() not in (before, changed)


def test_stamp_tells_files_apart_that_look_alike(tmp_path: Path) -> None:
    """Of the same names, sizes and times, in another place or put there later."""
    folders = [fill(tmp_path / name) for name in ("one", "two")]
    archives = [zipped(folder.parent / f"{folder.name}.zip", FILES) for folder in folders]
    tars = [tarred(folder.parent / f"{folder.name}.tgz", FILES) for folder in folders]
    for path in tmp_path.rglob("*"):
        os.utime(path, ns=(0, 0))

    def stamps() -> list[str]:
        folder_stamps = [FolderSource(folder, depth=3).stamp() for folder in folders]
        return folder_stamps + [ZipSource(zip).stamp() for zip in archives] + [TarSource(tar).stamp() for tar in tars]

    before = stamps()
    assert len(set(before)) == 6
    for path in (folders[0] / "a/1.png", archives[0], tars[0]):
        path.write_bytes(path.read_bytes()[::-1])
        os.utime(path, ns=(0, 0))
    assert [ours == was for ours, was in zip(stamps(), before, strict=True)] == [False, True] * 3


def test_what_is_no_file(tmp_path: Path) -> None:
    folder = fill(tmp_path / "folder")
    (folder / "a/folder.png").mkdir()
    (folder / "a/link.png").symlink_to(tmp_path / "nowhere")
    (folder / "a/loop.png").symlink_to(folder / "a/loop.png")
    os.mkfifo(folder / "a/pipe.png")
    source = FolderSource(folder, depth=2)
    for name in ("folder", "link", "loop", "pipe"):
        assert f"a/{name}.png" in source.paths
        with pytest.raises(UnreadableError, match=rf"a/{name}\.png (is not a file|cannot be read)"):
            source.read(f"a/{name}.png", 100)
    with pytest.raises(UnreadableError, match=r"a/1\.png has 3 bytes, more than the 2 allowed"):
        source.read("a/1.png", 2)


def test_name_that_is_no_text(tmp_path: Path) -> None:
    folder = fill(tmp_path / "folder")
    Path(os.fsdecode(os.fsencode(folder) + b"/a/\xff.png")).mkdir()
    source = FolderSource(folder, depth=2)
    assert source.stamp()
    (path,) = [path for path in source.paths if path not in (*FILES, "a/", "b/", "b/c")]
    with pytest.raises(UnreadableError) as caught:
        source.read(path, 100)
    assert str(caught.value).encode()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_unreadable(tmp_path: Path) -> None:
    folder = fill(tmp_path / "folder")
    (folder / "a/1.png").chmod(0)
    with pytest.raises(UnreadableError, match=r"a/1\.png cannot be read: Permission denied"):
        FolderSource(folder, depth=2).read("a/1.png", 100)
    (folder / "a").chmod(0)
    with pytest.raises(DataError, match=r"cannot read the folder .*/a: Permission denied"):
        FolderSource(folder, depth=2).stamp()
    (folder / "a").chmod(0o700)


def test_links_to_folders(tmp_path: Path) -> None:
    folder, outside = fill(tmp_path / "folder"), fill(tmp_path / "outside", {"9.png": b"nine"})
    (folder / "d").symlink_to(outside)
    assert contents(FolderSource(folder, depth=3)) == FILES | {"d/9.png": b"nine"}
    for target in (outside, folder, folder / "a", tmp_path):
        (folder / "e").symlink_to(target)
        with pytest.raises(DataError, match=r"folder/[de] is a link"):
            FolderSource(folder, depth=3).stamp()
        (folder / "e").unlink()


@pytest.mark.parametrize("name", ["../evil.png", "a/../../evil.png", "/etc/evil.png", "C:/evil.png", "..\\evil.png"])
def test_path_that_points_outside(tmp_path: Path, name: str) -> None:
    for source in (
        ZipSource(zipped(tmp_path / "x.zip", {name: b""})),
        TarSource(tarred(tmp_path / "x.tgz", {name: b""})),
    ):
        with pytest.raises(DataError, match="refused as unsafe"):
            _ = source.paths
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.tgz", "x.zip"]


def test_names_of_archive_members_that_are_no_names(tmp_path: Path) -> None:
    """The folder itself, as tar has it, is passed over; a file without a name is not ordinary."""
    with tarfile.open(tmp_path / "x.tgz", "w:gz") as tar:
        tar.add(fill(tmp_path / "folder"), ".")
    found = contents(TarSource(tmp_path / "x.tgz"))
    assert {path.removeprefix("./"): content for path, content in found.items()} == FILES
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.mkdir("./")
        archive.writestr("a/1.png", FILES["a/1.png"])
    assert "a/1.png" in ZipSource(tmp_path / "x.zip").paths
    with pytest.raises(DataError, match="refused as unsafe"):
        _ = TarSource(tarred(tmp_path / "y.tgz", {"": b"nameless"})).paths


def test_links_in_archives(tmp_path: Path) -> None:
    link = zipfile.ZipInfo("link.png")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr(link, "/etc/passwd")
    with tarfile.open(tmp_path / "x.tgz", "w:gz") as tar:
        member = tarfile.TarInfo("link.png")
        member.type, member.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(member)
    for source in (ZipSource(tmp_path / "x.zip"), TarSource(tmp_path / "x.tgz")):
        with pytest.raises(DataError, match="refused as unsafe"):
            _ = source.paths


def test_zip_bomb(tmp_path: Path) -> None:
    source = ZipSource(zipped(tmp_path / "x.zip", {"bomb.png": bytes(10_000_000)}))
    with pytest.raises(UnreadableError, match=r"bomb\.png claims to have 10000000 bytes"):
        source.read("bomb.png", 1_000_000)
    with pytest.raises(UnreadableError, match=r"bomb\.png claims to unpack to 10000000 bytes from"):
        source.read("bomb.png", 100_000_000)


def test_member_longer_than_it_claims(tmp_path: Path) -> None:
    data = zipped(tmp_path / "x.zip", {"x.png": bytes(1000)}).read_bytes()
    assert data.count((1000).to_bytes(4, "little")) == 2
    (tmp_path / "x.zip").write_bytes(data.replace((1000).to_bytes(4, "little"), (10).to_bytes(4, "little")))
    with pytest.raises(UnreadableError, match=r"x\.png cannot be read"):
        ZipSource(tmp_path / "x.zip").read("x.png", 100)


def test_tar_bomb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eigen_reptile.data.archives.MAX_TAR", 1_000_000)
    (tmp_path / "x.tgz").write_bytes(gzip.compress(bytes(2_000_000)))
    with pytest.raises(DataError, match="unpacks to more than"):
        _ = TarSource(tmp_path / "x.tgz").paths


@pytest.mark.parametrize("kept", [0, 1, 30, -100, -8, -4, -1])
def test_cut_off_archives(tmp_path: Path, kept: int) -> None:
    files = {f"{number}.png": os.urandom(100) for number in range(20)}
    for source in (ZipSource(zipped(tmp_path / "x.zip", files)), TarSource(tarred(tmp_path / "x.tgz", files))):
        source.place.write_bytes(source.place.read_bytes()[:kept])
        with pytest.raises(DataError, match=rf"{source.place.name} is not a whole"):
            _ = source.paths


def test_damaged_member(tmp_path: Path) -> None:
    data = bytearray(zipped(tmp_path / "x.zip", {"x.png": os.urandom(100)}).read_bytes())
    data[60] ^= 1
    (tmp_path / "x.zip").write_bytes(data)
    with pytest.raises(UnreadableError, match=r"x\.png cannot be read"):
        ZipSource(tmp_path / "x.zip").read("x.png", 100)


def test_encrypted_or_doubled_members(tmp_path: Path) -> None:
    data = bytearray(zipped(tmp_path / "x.zip", {"x.png": b"x"}).read_bytes())
    data[data.index(b"PK\x01\x02") + 8] |= 1
    (tmp_path / "x.zip").write_bytes(data)
    with pytest.raises(DataError, match="encrypted"):
        _ = ZipSource(tmp_path / "x.zip").paths
    with zipfile.ZipFile(tmp_path / "y.zip", "w") as archive:
        archive.writestr("x.png", b"1")
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("x.png", b"2")
    with pytest.raises(DataError, match="two files of one name"):
        _ = ZipSource(tmp_path / "y.zip").paths


# Plain data

ARRAY = np.random.default_rng(0).integers(0, 256, (4, 3, 2), dtype=np.uint8)
TABLE = {
    "data": ARRAY,
    "columns first": np.asfortranarray(ARRAY),
    "numbers": np.arange(-3, 4),
    "labels": [1, 2, 300, 70_000, -1, 2**40],
    "names": ["a", "é"],
    b"bytes": b"\x00\xff",
    "more": {"none": None, "yes": True, "no": False, "tuple": (1, (2, 3), (), (4,) * 4), "float": 0.5},
    "twice": [[1], [1]],
}


def same(ours: Any, theirs: Any) -> bool:
    if isinstance(theirs, np.ndarray):
        return ours.dtype == theirs.dtype and np.array_equal(ours, theirs)
    if isinstance(theirs, dict):
        return list(ours) == list(theirs) and all(same(ours[key], theirs[key]) for key in theirs)
    return bool(ours == theirs and type(ours) is type(theirs))


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_plain_data_of_every_protocol(protocol: int) -> None:
    assert same(read_plain(io.BytesIO(pickle.dumps(TABLE, protocol))), TABLE)


def test_plain_data_as_python_2_wrote_it() -> None:
    """The head of the official files: their strings are bytes to Python 3, and their arrays have byte strings."""
    data = (
        b"\x80\x02}q\x01(U\x04dataq\x02cnumpy.core.multiarray\n_reconstruct\nq\x03cnumpy\nndarray\nq\x04K\x00\x85U\x01b\x87Rq\x05"
        b"(K\x01K\x02K\x03\x86cnumpy\ndtype\nq\x06U\x02u1K\x00K\x01\x87Rq\x07(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xff"
        b"K\x00tb\x89U\x06\x00\x01\x02\xfd\xfe\xfftbU\x0bfine_labelsq\x08]q\x09(K\x13K\x1deu."
    )
    expected = {"data": np.array([[0, 1, 2], [253, 254, 255]], dtype=np.uint8), "fine_labels": [19, 29]}
    assert same(read_plain(io.BytesIO(data)), expected)


def test_plain_ordered_dict() -> None:
    assert read_plain(io.BytesIO(pickle.dumps(OrderedDict(a=1), 2))) == {"a": 1}


class Evil:
    def __init__(self, call: Any, *arguments: Any) -> None:
        self.made = call, arguments

    def __reduce__(self) -> Any:
        return self.made


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_nothing_is_run(tmp_path: Path, protocol: int) -> None:
    for call, argument in ((os.system, f"mkdir {tmp_path}/evil"), (os.mkdir, f"{tmp_path}/evil")):
        data = pickle.dumps({"data": ARRAY, "fine_labels": Evil(call, argument)}, protocol)
        with pytest.raises(ValueError, match="more than plain data"):
            read_plain(io.BytesIO(data))
        assert not list(tmp_path.iterdir())
        pickle.loads(data)
        (tmp_path / "evil").rmdir()  # so it would have been run


@pytest.mark.parametrize(
    "value",
    [
        np.array([{}], dtype=object),
        np.zeros(2, dtype=[("a", "u1")]),
        np.dtype("O"),
        Path("x"),
        {(1, 2): 3},
        {1, 2},
        1j,
    ],
)
def test_more_than_plain_data(value: Any) -> None:
    with pytest.raises(ValueError, match=r"more than plain data|unusual keys"):
        read_plain(io.BytesIO(pickle.dumps(value)))


def claims(shape: tuple[int, ...]) -> bytes:
    """An array that says to be of another shape than its content."""
    return pickle.dumps(np.zeros(7, np.uint8), 2).replace(b"K\x07\x85", pickle.dumps(shape, 2)[2:-1])


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b".",
        b"hello",
        claims((2**40,)),
        claims((-1,)),
        claims((8,)),
        b"\x80\x04\x8e\xff\xff\xff\xff\xff\xff\xff\x00.",  # a text longer than memory
        b"\x80\x02r\xff\xff\xff\xff.",  # a place in a table of four billion
        b"\x80\x02e.",
        b"\x80\x02K\x01K\x02a.",
        b"\x80\x02h\x07.",
        pickle.dumps(TABLE)[:-1],
    ],
)
def test_damaged_plain_data(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        read_plain(io.BytesIO(data))


def test_too_many_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain, "MAX_STEPS", 1000)
    with pytest.raises(ValueError, match="more than 1000 steps"):
        read_plain(io.BytesIO(b"\x80\x02" + b"]" * 2000 + b"."))
