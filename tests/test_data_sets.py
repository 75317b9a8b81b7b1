"""The data sets that come from files: in every form, whole and not."""

import csv
import functools
import hashlib
import http.server
import io
import logging
import pickle
import re
import shutil
import tarfile
import threading
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from eigen_reptile.data.bank import DataError, Split
from eigen_reptile.data.cache import SPLITS, Packed
from eigen_reptile.data.cifar import CifarFs, Fc100, check_lists, cifar_contents, find_cifar
from eigen_reptile.data.images import ImageBank
from eigen_reptile.data.mini_imagenet import MiniImagenet
from eigen_reptile.data.official import Official, class_lists, fetch
from eigen_reptile.data.omniglot import Omniglot, find_omniglot, omniglot_contents, split_classes
from eigen_reptile.data.packing import PictureSet
from eigen_reptile.progress import Report, silent

MINI = class_lists("mini_imagenet")
FOLDERS: dict[Split, str] = {"train": "train", "validation": "val", "test": "test"}


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EIGEN_REPTILE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("EIGEN_REPTILE_DATA", str(tmp_path / "data"))


def load(data: PictureSet) -> dict[Split, ImageBank]:
    banks = data.load(silent)
    assert all(isinstance(bank, ImageBank) for bank in banks)
    return dict(zip(SPLITS, banks, strict=True))  # type: ignore[arg-type]


def rows(bank: ImageBank, name: str) -> np.ndarray:
    """The pictures of a class."""
    place = bank.names.index(name)
    start = int(bank.sizes[:place].sum())
    return bank.pixels[start : start + int(bank.sizes[place])]


def encoded(pixels: np.ndarray, kind: str = "PNG") -> bytes:
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, kind)
    return stream.getvalue()


def write(folder: Path, files: Mapping[str, bytes]) -> Path:
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    return folder


def write_zip(file: Path, files: Mapping[str, bytes]) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(file, "w") as archive:
        for path, content in files.items():
            archive.writestr(path, content)
    return file


# A whole mini-ImageNet, of two pictures a class


@functools.cache
def picture(name: str, number: int) -> np.ndarray:
    seed = list(hashlib.sha256(f"{name} {number}".encode()).digest())
    return np.random.default_rng(seed).integers(0, 256, (84, 84, 3), dtype=np.uint8)


@functools.cache
def mini_files() -> dict[str, bytes]:
    return {
        f"{FOLDERS[split]}/{name}/{name}_{number}.bmp": encoded(picture(name, number), "BMP")
        for split, names in MINI.items()
        for name in names
        for number in range(2)
    }


def as_folders(root: Path) -> Path:
    return write(root, mini_files())


def as_one_zip(root: Path) -> Path:
    return write_zip(root / "mini.zip", {f"mini/{path}": content for path, content in mini_files().items()})


def as_zips(root: Path) -> Path:
    for folder in FOLDERS.values():
        members = {p.removeprefix(f"{folder}/"): c for p, c in mini_files().items() if p.startswith(f"{folder}/")}
        write_zip(root / f"{folder}.zip", members)
    return root


def as_lists(root: Path, zipped: bool = False) -> Path:
    images = {path.rsplit("/", 1)[1]: content for path, content in mini_files().items()}
    _ = write_zip(root / "images.zip", images) if zipped else write(root / "images", images)
    for split, folder in FOLDERS.items():
        lines = [f"{name}_{number}.bmp,{name}\n" for number in (1, 0) for name in MINI[split]]
        (root / f"{folder}.csv").write_text("filename,label\n" + "".join(lines))
    return root


def as_arrays(root: Path) -> Path:
    root.mkdir(parents=True)
    for split, folder in FOLDERS.items():
        pixels = np.stack([picture(name, number) for number in range(2) for name in MINI[split]])
        places = {name: [place, place + len(MINI[split])] for place, name in enumerate(MINI[split])}
        table = {"image_data": pixels, "class_dict": places}
        (root / f"mini-imagenet-cache-{folder}.pkl").write_bytes(pickle.dumps(table, 2))
    return root


@pytest.mark.parametrize(
    "form",
    [as_folders, as_one_zip, as_zips, as_lists, functools.partial(as_lists, zipped=True), as_arrays],
)
def test_mini_imagenet_in_every_form(tmp_path: Path, form: Callable[[Path], Path]) -> None:
    banks = load(MiniImagenet(form(tmp_path / "mini"), per_class=2))
    for split, bank in banks.items():
        assert bank.names == MINI[split]
        assert bank.shape == (3, 84, 84)
        expected = np.stack([picture(name, number) for name in MINI[split] for number in range(2)])
        assert np.array_equal(bank.pixels, expected)


def test_second_load_reads_nothing_and_a_change_is_noticed(tmp_path: Path) -> None:
    told: list[tuple[str, int, int]] = []

    def announce(name: str, total: int) -> Report:
        return lambda done, numbers: told.append((name, total, done))

    root = as_folders(tmp_path / "mini")
    data = MiniImagenet(root, per_class=2)
    data.load(announce)
    assert told[0] == ("reading mini-imagenet", 200, 2)
    assert told[-1] == ("reading mini-imagenet", 200, 200)
    told.clear()
    data.load(announce)
    assert not told
    name = MINI["test"][0]
    (root / f"test/{name}/{name}_0.bmp").write_bytes(encoded(picture("another", 0), "BMP"))
    changed = load(data)["test"]
    assert np.array_equal(changed.pixels[0], picture("another", 0))
    assert np.array_equal(changed.pixels[1], picture(name, 1))


def test_found_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    as_zips(tmp_path / "data" / "mini-imagenet")
    assert load(MiniImagenet(per_class=2))["test"].names == MINI["test"]
    monkeypatch.delenv("EIGEN_REPTILE_DATA")
    monkeypatch.chdir(tmp_path)
    assert load(MiniImagenet(per_class=2))["test"].names == MINI["test"]


def test_another_size_is_resized(tmp_path: Path) -> None:
    root = as_folders(tmp_path / "mini")
    name = MINI["train"][0]
    large = Image.fromarray(np.random.default_rng(0).integers(0, 256, (100, 120, 3), dtype=np.uint8))
    large.save(root / f"train/{name}/{name}_0.bmp")
    expected = np.asarray(large.resize((84, 84), Image.Resampling.BICUBIC))
    assert np.array_equal(load(MiniImagenet(root, per_class=2))["train"].pixels[0], expected)


# Not whole

FIRST = MINI["train"][0]
VICTIM = f"train/{FIRST}/{FIRST}_1.bmp"


def delete_class(root: Path) -> None:
    shutil.rmtree(root / "val" / MINI["validation"][3])


def empty_class(root: Path) -> None:
    for file in (root / "val" / MINI["validation"][3]).iterdir():
        file.unlink()


def add_class(root: Path) -> None:
    shutil.copytree(root / "train" / FIRST, root / "train" / "n00000000")


def move_class(root: Path) -> None:
    (root / "train" / FIRST).rename(root / "test" / FIRST)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (delete_class, f"lacks 1 of 100 classes (val/{MINI['validation'][3]})"),
        (empty_class, f"lacks 1 of 100 classes (val/{MINI['validation'][3]})"),
        (add_class, "classes that do not belong to it (train/n00000000)"),
        (move_class, f"lacks 1 of 100 classes (train/{FIRST})"),
        (lambda root: (root / VICTIM).unlink(), f"train/{FIRST} has 1"),
        (lambda root: shutil.copy(root / VICTIM, root / f"{VICTIM}.png"), f"train/{FIRST} has 3"),
        (lambda root: (root / VICTIM).rename((root / VICTIM).with_suffix(".txt")), f"train/{FIRST} has 1"),
        (lambda root: (root / VICTIM).write_text("text"), f"{VICTIM} is not a picture"),
        (lambda root: (root / VICTIM).write_bytes(b""), f"{VICTIM} is empty"),
        (lambda root: (root / VICTIM).write_bytes((root / VICTIM).read_bytes()[:-3]), f"{VICTIM} cannot be decoded"),
        (lambda root: shutil.rmtree(root / "val"), "holds no val"),
    ],
)
def test_source_that_is_not_whole(tmp_path: Path, damage: Callable[[Path], Any], message: str) -> None:
    root = as_folders(tmp_path / "mini")
    damage(root)
    with pytest.raises(DataError, match=re.escape(message)) as caught:
        MiniImagenet(root, per_class=2).load(silent)
    assert "\n" not in str(caught.value)


def test_broken_pictures_are_left_out_on_request(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    root = as_folders(tmp_path / "mini")
    (root / VICTIM).write_text("text")
    with caplog.at_level(logging.WARNING):
        bank = load(MiniImagenet(root, per_class=2, skip_broken=True))["train"]
    assert f"left out: {root}/{VICTIM} is not a picture" in caplog.text
    assert bank.sizes.tolist() == [1] + [2] * 63
    assert np.array_equal(rows(bank, MINI["train"][1])[0], picture(MINI["train"][1], 0))
    (root / f"train/{FIRST}/{FIRST}_0.bmp").write_text("text")
    bank = load(MiniImagenet(root, per_class=2, skip_broken=True))["train"]
    assert bank.names == MINI["train"][1:]
    assert f"the class {FIRST}, of which no picture can be read" in caplog.text
    (root / VICTIM).unlink()
    with pytest.raises(DataError, match=f"{FIRST} has 1"):
        MiniImagenet(root, per_class=2, skip_broken=True).load(silent)


def test_wrong_number_of_pictures_tells_of_the_setting(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"must have 600 pictures, but .* has 2, .* --data\.per-class"):
        MiniImagenet(as_folders(tmp_path / "mini")).load(silent)


def test_lists_and_arrays_that_are_not_whole(tmp_path: Path) -> None:
    root = as_lists(tmp_path / "lists")
    (root / "images" / f"{FIRST}_1.bmp").unlink()
    with pytest.raises(DataError, match=rf"lacks 1 pictures of train\.csv, the first of them {FIRST}_1\.bmp"):
        MiniImagenet(root, per_class=2).load(silent)
    (root / "val.csv").write_text("a,b\n1,2\n")
    with pytest.raises(DataError, match=r"val\.csv is not a table|lacks"):
        MiniImagenet(root, per_class=2).load(silent)
    root = as_arrays(tmp_path / "arrays")
    file = root / "mini-imagenet-cache-val.pkl"
    whole = file.read_bytes()
    for content in (whole[:-1], whole[: len(whole) // 2], b"text", pickle.dumps({"image_data": 1, "class_dict": {}})):
        file.write_bytes(content)
        with pytest.raises(DataError, match=r"mini-imagenet-cache-val\.pkl is not of mini-ImageNet"):
            MiniImagenet(root, per_class=2).load(silent)


def test_not_there(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"not in .*/data/mini-imagenet, .* put there train, val and test"):
        MiniImagenet().load(silent)
    for data in (MiniImagenet(tmp_path / "no"), CifarFs(tmp_path / "no"), Omniglot(tmp_path / "no")):
        with pytest.raises(
            DataError, match=r"there is no .*/no: --data\.root \(of a recipe: --data\) must be where the pictures lie"
        ):
            data.load(silent)
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="holds no mini-ImageNet: put there"):
        MiniImagenet(tmp_path / "empty").load(silent)
    with pytest.raises(DataError, match="holds no CIFAR-100: put there"):
        Fc100(tmp_path / "empty").load(silent)
    with pytest.raises(DataError, match=r"neither the folder images_background nor images_background\.zip"):
        Omniglot(tmp_path / "empty").load(silent)


# CIFAR-100 in little

LITTLE = Official("little CIFAR", {"train": ("bee", "cup"), "validation": ("fox",), "test": ("rose",)}, per_class=3)
NAMES = sorted(name for names in LITTLE.classes.values() for name in names)
PIXELS = np.random.default_rng(0).integers(0, 256, (4, 3, 32, 32, 3), dtype=np.uint8)  # class, picture, ...


def cifar_files() -> dict[str, bytes]:
    return {
        f"data/{name}/{number}.png": encoded(PIXELS[label, number])
        for label, name in enumerate(NAMES)
        for number in range(3)
    }


def arrays(pixels: np.ndarray, names: list[str], protocol: int = 2, train: int = 2) -> dict[str, bytes]:
    """The files of CIFAR-100: the first pictures of each class for training, the others for testing."""
    parts = {"train": pixels[:, :train], "test": pixels[:, train:]}
    tables: dict[str, Any] = {"meta": {"fine_label_names": names}}
    for part, some in parts.items():
        rows = some.transpose(1, 0, 4, 2, 3).reshape(-1, 3 * 32 * 32)
        tables[part] = {"data": rows, "fine_labels": list(range(len(names))) * some.shape[1], "filenames": ["x"] * 3}
    return {f"cifar-100-python/{name}": pickle.dumps(table, protocol) for name, table in tables.items()}


def tarred(file: Path, files: Mapping[str, bytes], level: int = 1) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(file, "w:gz", compresslevel=level) as archive:
        for path, content in files.items():
            member = tarfile.TarInfo(path)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return file


CIFAR_FORMS: dict[str, Callable[[Path], Path]] = {
    "holds the tree": lambda root: write(root / "cifar100", cifar_files()).parent,
    "is the tree": lambda root: write(root / "cifar100", cifar_files()),
    "is a zip": lambda root: write_zip(root / "any.zip", {f"cifar100/{p}": c for p, c in cifar_files().items()}),
    "holds a zip": lambda root: write_zip(root / "cifar-fs.zip", cifar_files()).parent,
    "is a tar": lambda root: tarred(root / "any.tar.gz", arrays(PIXELS, NAMES)),
    "holds a tar": lambda root: tarred(root / "cifar-100-python.tar.gz", arrays(PIXELS, NAMES, 5)).parent,
    "holds arrays": lambda root: write(root, arrays(PIXELS, NAMES)),
    "is arrays": lambda root: write(root, arrays(PIXELS, NAMES, 4)) / "cifar-100-python",
}


@pytest.mark.parametrize("form", CIFAR_FORMS)
def test_cifar_in_every_form(tmp_path: Path, form: str) -> None:
    contents = cifar_contents(find_cifar(CIFAR_FORMS[form](tmp_path / "cifar")), LITTLE)
    assert contents.shape == (32, 32, 3)
    assert {split: tuple(classes) for split, classes in contents.splits.items()} == LITTLE.classes
    for classes in contents.splits.values():
        for name, pictures in classes.items():
            assert np.array_equal(np.stack([picture() for picture in pictures]), PIXELS[NAMES.index(name)])


def test_cifar_lists_must_agree(tmp_path: Path) -> None:
    lists = {"train.txt": b"cup\nbee\n", "val.txt": b"fox", "test.txt": b"rose"}
    root = write(tmp_path / "cifar100", cifar_files() | {f"splits/bertinetto/{n}": c for n, c in lists.items()})
    check_lists(find_cifar(root)["lists"], LITTLE)
    (root / "splits/bertinetto/val.txt").write_text("cup\n")
    with pytest.raises(DataError, match=r"bertinetto/val\.txt is not the list of little CIFAR"):
        check_lists(find_cifar(root)["lists"], LITTLE)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"test": None}, "has no file test"),
        ({"meta": b"text"}, "meta cannot be read"),
        ({"meta": {"fine_label_names": NAMES[:3]}}, "labels without a name"),
        ({"meta": {"fine_label_names": [*NAMES[:3], "shoe"]}}, "lacks 1 of 4 classes (rose)"),
        ({"test": {"data": PIXELS[:, 2].reshape(4, -1)}}, "test has no 'fine_labels'"),
        ({"test": {"data": PIXELS[0], "fine_labels": [0] * 3}}, "test does not hold a row of 3072 bytes"),
        ({"test": {"data": PIXELS[:, 2].reshape(4, -1), "fine_labels": [0, 1, 2, -1]}}, "labels without a name"),
        ({"test": {"data": PIXELS[:, 2].reshape(4, -1), "fine_labels": [0, 1, 2, 2]}}, "fox has 4, rose has 2"),
        ({"test": [1, 2]}, "test cannot be read"),
    ],
)
def test_cifar_arrays_that_are_not_whole(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    files = arrays(PIXELS, NAMES)
    for name, content in change.items():
        path = f"cifar-100-python/{name}"
        files[path] = content if isinstance(content, bytes) else pickle.dumps(content)
        if content is None:
            del files[path]
    with pytest.raises(DataError, match=re.escape(message)):
        cifar_contents(find_cifar(tarred(tmp_path / "x.tar.gz", files)), LITTLE)


# Splits


@pytest.mark.parametrize(
    ("splits", "counts"),
    [
        (class_lists("cifar_fs"), (64, 16, 20)),
        (class_lists("fc100"), (60, 20, 20)),
        (class_lists("mini_imagenet"), (64, 16, 20)),
        (split_classes("vinyals"), (1028, 172, 423)),
        (split_classes("background"), (813, 151, 659)),
    ],
)
def test_official_splits(splits: dict[Split, tuple[str, ...]], counts: tuple[int, ...]) -> None:
    assert tuple(splits) == SPLITS
    assert tuple(map(len, splits.values())) == counts
    assert len(set().union(*splits.values())) == sum(counts)


def test_background_split_of_omniglot_keeps_alphabets_whole() -> None:
    splits = split_classes("background")
    alphabets = {split: {name.rsplit("/", 1)[0] for name in names} for split, names in splits.items()}
    assert [len(some) for some in alphabets.values()] == [25, 5, 20]
    assert not alphabets["train"] & alphabets["validation"]
    assert max(alphabets["train"]) < min(alphabets["validation"])
    assert all(name.startswith("images_evaluation/") for name in splits["test"])


def test_splits_are_those_of_the_shared_lists(shared: Path) -> None:
    def column(file: str, name: str) -> set[str]:
        with (shared / file).open(newline="") as table:
            return {row[name] for row in csv.DictReader(table)}

    with (shared / "cifar_fs/manifest.csv").open(newline="") as table:
        superclass = {row["class"]: row["superclass"] for row in csv.DictReader(table)}
    for split, folder in FOLDERS.items():
        assert set(class_lists("cifar_fs")[split]) == column(f"splits/cifar_fs_{folder}.csv", "class")
        assert set(MINI[split]) == column(f"splits/miniimagenet_ravi_{folder}.csv", "class")
        above = column(f"splits/fc100_{folder}.csv", "class")
        assert {superclass[name] for name in class_lists("fc100")[split]} == above
        characters = {name.split("/", 1)[1] for name in split_classes("vinyals")[split]}
        assert characters == column(f"splits/omniglot_vinyals_{folder}.csv", "class")


# Downloads


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


def test_download(server: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    told: list[tuple[str, int, int]] = []

    def announce(name: str, total: int) -> Report:
        return lambda done, numbers: told.append((name, total, done))

    md5 = hashlib.md5(b"content").hexdigest()
    home = tmp_path / "home"
    with pytest.raises(DataError, match=rf"cannot download {server}/set\.zip \(wrong checksum\): .* into {home}"):
        fetch(f"{server}/set.zip", "0" * 32, home, announce)
    with pytest.raises(DataError, match=r"no\.zip \(HTTPError\)"):
        fetch(f"{server}/no.zip", md5, home, announce)
    told.clear()
    file = fetch(f"{server}/set.zip", md5, home, announce)
    assert file.read_bytes() == b"content"
    assert told[-1] == ("downloading set.zip", 7, 7)
    (tmp_path / "web" / "set.zip").unlink()
    assert fetch(f"{server}/set.zip", md5, home, announce) == file
    assert capfd.readouterr() == ("", "")


# The real ones


def test_real_mini_imagenet(shared: Path, tmp_path: Path) -> None:
    """Ten pictures of each class: they are as Pillow decodes them."""
    firsts: dict[str, list[bytes]] = {}
    for split, folder in FOLDERS.items():
        files: dict[str, bytes] = {}
        with zipfile.ZipFile(shared / "miniimagenet_180" / f"{folder}.zip") as archive:
            for name in MINI[split]:
                paths = sorted(path for path in archive.namelist() if path.startswith(f"{name}/") and path[-1] != "/")
                assert len(paths) == 180
                firsts[name] = [archive.read(path) for path in paths[:10]]
                files |= dict(zip(paths, firsts[name], strict=False))
        write_zip(tmp_path / "mini" / f"{folder}.zip", files)
    for split, bank in load(MiniImagenet(tmp_path / "mini", per_class=10)).items():
        assert bank.names == MINI[split]
        for name in MINI[split][::5]:
            expected = [np.asarray(Image.open(io.BytesIO(data)).convert("RGB")) for data in firsts[name]]
            assert np.array_equal(rows(bank, name), np.stack(expected))


def test_real_cifar(shared: Path, tmp_path: Path) -> None:
    """Twenty pictures of each class, from an archive like the official one."""
    with (shared / "cifar_fs/manifest.csv").open(newline="") as table:
        names = [row["class"] for row in csv.DictReader(table)]
    pixels = np.empty((100, 20, 32, 32, 3), dtype=np.uint8)
    for folder in FOLDERS.values():
        with zipfile.ZipFile(shared / "cifar_fs" / f"{folder}.zip") as archive:
            for path in archive.namelist():
                mosaic = Image.open(io.BytesIO(archive.read(path))).convert("RGB")
                tiles = [np.asarray(mosaic)[:32, 32 * number : 32 * number + 32] for number in range(20)]
                pixels[names.index(Path(path).stem)] = tiles
    root = tarred(tmp_path / "cifar-100-python.tar.gz", arrays(pixels, names, train=15))
    for data, title in ((CifarFs(root), "CIFAR-FS"), (Fc100(root), "FC100")):
        with pytest.raises(DataError, match=f"not the whole of {title}: each class must have 600 .* and 95 more"):
            data.load(silent)
        lists = class_lists(data.name.replace("-", "_"))
        contents = cifar_contents(find_cifar(root), Official(title, lists, per_class=20))
        for split, classes in contents.splits.items():
            assert tuple(classes) == lists[split]
            for name, pictures in classes.items():
                assert np.array_equal(np.stack([picture() for picture in pictures]), pixels[names.index(name)])


def test_real_omniglot(shared: Path, tmp_path: Path) -> None:
    """All characters of Omniglot are found in zips like the official ones, and some are looked at."""
    with np.load(shared / "omniglot.npz") as packed:
        labels, names = packed["labels"], packed["class_names"].tolist()
        parts, files = packed["class_split"], packed["file_names"].tolist()
        drawn = np.unpackbits(packed["packed"][labels % 40 == 0], axis=1, count=105 * 105).reshape(-1, 105, 105)
    sheets = dict(zip(np.flatnonzero(labels % 40 == 0).tolist(), drawn, strict=True))
    for part in ("background", "evaluation"):
        members = {
            f"images_{part}/{names[label]}/{file.rsplit('/', 1)[-1]}": encoded(sheets[row] == 0)
            if row in sheets
            else b""
            for row, (label, file) in enumerate(zip(labels, files, strict=True))
            if parts[label] == part
        }
        write_zip(tmp_path / "omniglot" / f"images_{part}.zip", members)
    sources = find_omniglot(tmp_path / "omniglot")
    found = omniglot_contents(sources, "background").splits
    assert [len(classes) for classes in found.values()] == [813, 151, 659]
    found = omniglot_contents(sources, "vinyals").splits
    assert [len(classes) for classes in found.values()] == [1028, 172, 423]
    classes = {name: pictures for classes in found.values() for name, pictures in classes.items()}
    assert {len(pictures) for pictures in classes.values()} == {20}
    for label in range(0, len(names), 40):
        own = np.stack([sheets[row] for row in np.flatnonzero(labels == label).tolist()])
        fine = np.repeat(np.repeat(own, 4, axis=1), 4, axis=2) * 255.0
        expected = fine.reshape(20, 28, 15, 28, 15).mean(axis=(2, 4))
        ours = np.stack([picture() for picture in classes[names[label]]])
        assert np.abs(ours[..., 0] - expected).max() < 0.501
    (tmp_path / "omniglot" / "images_evaluation.zip").unlink()
    with pytest.raises(DataError, match="neither the folder images_evaluation nor"):
        find_omniglot(tmp_path / "omniglot")


@pytest.mark.parametrize("rotations", [True, False])
def test_omniglot_turns_characters_for_training_only(rotations: bool) -> None:
    packed = {split: Packed(np.zeros((6, 28, 28, 1), np.uint8), ("a", "b", "c"), (2, 2, 2)) for split in SPLITS}
    banks = Omniglot(rotations=rotations)._banks(packed)
    assert [bank.classes for bank in banks if isinstance(bank, ImageBank)] == [12 if rotations else 3, 3, 3]
