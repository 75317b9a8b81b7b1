"""A folder with a folder for each class, as people have them."""

import os
from pathlib import Path

import numpy as np
import pytest

from eigen_reptile.errors import DataError
from eigen_reptile.practice.backbones import FunctionBackbone, ImageInput
from eigen_reptile.practice.image_folder import features_of_folder, list_image_folder
from image_files import encoded, write_files

MEAN = FunctionBackbone(lambda x: 255 * x.mean((2, 3)), ImageInput(4))


def image(value: int) -> bytes:
    return encoded(np.full((5, 7, 3), value, dtype=np.uint8))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    files = {"big dog/1.png": image(1), "big dog/2.JPG": image(2), "cat/x y.png": image(3)}
    return write_files(tmp_path / "images", files)


def test_paths_labels_and_names(folder: Path) -> None:
    found = list_image_folder(folder)
    assert found.names == ["big dog", "cat"]
    assert found.paths == [folder / "big dog" / "1.png", folder / "big dog" / "2.JPG", folder / "cat" / "x y.png"]
    assert found.labels.tolist() == [0, 0, 1]
    same, features = features_of_folder(found, MEAN)
    assert same.paths == found.paths
    np.testing.assert_allclose(features[:, 0], [1, 2, 3], atol=1e-4)


def test_what_is_no_image_of_a_class_is_ignored(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    extra = {"top.png": b"", "cat/deep/1.png": b"", "cat/deep/deeper/1.png": b"", ".hidden/1.png": b""}
    expected = list_image_folder(folder)
    write_files(folder, extra | {"cat/.hidden.png": b"", "cat/notes.txt": b"", "__MACOSX/cat.png": b""})
    found = list_image_folder(folder)
    assert found.paths == expected.paths
    assert "ignored 2 images" in caplog.text


def test_broken_images_are_listed_together(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_files(folder, {"cat/bad.png": b"x", "big dog/0.png": b"y"})
    found = list_image_folder(folder)
    with pytest.raises(DataError, match=r"2 of 5 images are broken, the first of them: .*0\.png .*`skip_broken`"):
        features_of_folder(found, MEAN)
    assert "bad.png" in caplog.text
    readable, features = features_of_folder(found, MEAN, skip_broken=True)
    assert [path.name for path in readable.paths] == ["1.png", "2.JPG", "x y.png"]
    assert readable.labels.tolist() == [0, 0, 1]
    np.testing.assert_allclose(features[:, 0], [1, 2, 3], atol=1e-4)


def test_a_class_of_broken_images_is_an_error(folder: Path) -> None:
    write_files(folder, {"owl/bad.png": b"x"})
    with pytest.raises(DataError, match="none of the images of the class owl"):
        features_of_folder(list_image_folder(folder), MEAN, skip_broken=True)


def test_empty_classes(folder: Path) -> None:
    (folder / "ant").mkdir()
    with pytest.raises(DataError, match="1 of 3 classes have no images, the first of them ant"):
        list_image_folder(folder)
    assert list_image_folder(folder, skip_broken=True).names == ["big dog", "cat"]


def test_folders_without_classes(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there is no folder"):
        list_image_folder(tmp_path / "none")
    write_files(tmp_path, {"1.png": image(1), "a/b/2.png": image(2)})
    with pytest.raises(DataError, match="a folder for each class"):
        list_image_folder(tmp_path)


def test_links(folder: Path, tmp_path: Path) -> None:
    other = write_files(tmp_path / "elsewhere", {"1.png": image(9)})
    (folder / "linked").symlink_to(other)
    (folder / "cat" / "gone.png").symlink_to(tmp_path / "missing.png")
    found = list_image_folder(folder)
    assert found.names == ["big dog", "cat", "linked"]
    readable, _ = features_of_folder(found, MEAN, skip_broken=True)
    assert "gone.png" not in {path.name for path in readable.paths}
    (folder / "loop").symlink_to(folder)
    with pytest.raises(DataError, match="is a link to a folder that is already"):
        list_image_folder(folder)


def test_names_that_are_not_utf8_are_refused(folder: Path) -> None:
    try:
        os.mkdir(os.fsencode(folder) + b"/caf\xe9")  # noqa: PTH102  # pathlib has no paths of bytes
    except OSError:
        pytest.skip("the file system takes only UTF-8")
    with pytest.raises(DataError, match="is not UTF-8"):
        list_image_folder(folder)
