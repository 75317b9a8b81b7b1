"""Whatever users pass as samples, against pixels that are known."""

import struct
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra.numpy import arrays
from PIL import Image

from eigen_reptile.errors import ConfigError, DataError
from eigen_reptile.practice.backbones import FeatureCache, FunctionBackbone, ImageInput, Vectors
from eigen_reptile.practice.samples import BATCH, features_of, pixels_of, readable_features
from eigen_reptile.runtime.progress import ReportProgress
from image_files import encoded

RNG = np.random.default_rng(0)
IMAGES = RNG.integers(0, 256, (5, 6, 6, 3), dtype=np.uint8)
RGB, GREY = ImageInput(6).image_format, ImageInput(6, "L").image_format


def flat(mode: str = "RGB") -> FunctionBackbone:
    """A backbone whose features are the pixels, as they were."""
    return FunctionBackbone(lambda x: (255 * x.permute(0, 2, 3, 1)).flatten(1), ImageInput(6, mode), "flat")  # type: ignore[arg-type]


def rows(images: np.ndarray) -> np.ndarray:
    return images.reshape(len(images), -1).astype(np.float32)


def test_all_kinds_of_the_same_images(tmp_path: Path) -> None:
    paths = [tmp_path / f"image {number}.png" for number in range(5)]
    for path, image in zip(paths, IMAGES, strict=True):
        path.write_bytes(encoded(image))
    kinds: list[Any] = [
        paths,
        [str(path) for path in paths],
        np.array([str(path) for path in paths]),
        tuple(Image.fromarray(image) for image in IMAGES),
        IMAGES,
        list(IMAGES),
        IMAGES / 255,
        (IMAGES / 255).astype(np.float32),
        np.concatenate([IMAGES, np.full((5, 6, 6, 1), 255, dtype=np.uint8)], axis=3),
        iter(list(IMAGES)),
        [paths[0], str(paths[1]), Image.fromarray(IMAGES[2]), IMAGES[3], IMAGES[4] / 255],
    ]
    for samples in kinds:
        np.testing.assert_allclose(features_of(samples, flat()), rows(IMAGES), atol=1e-3)


@settings(max_examples=50, deadline=None)
@given(arrays(np.uint8, st.tuples(*[st.integers(1, 12)] * 2)))
def test_grey_images_with_and_without_a_channel(image: np.ndarray) -> None:
    expected = np.asarray(Image.fromarray(image).resize((6, 6), Image.Resampling.BICUBIC))
    for one in (image, image[..., None], Image.fromarray(image), (image / 255).astype(np.float64)):
        np.testing.assert_array_equal(pixels_of(one, GREY)[..., 0], expected)
        np.testing.assert_array_equal(pixels_of(one, RGB), np.repeat(expected[..., None], 3, axis=2))


def test_transparency_is_white() -> None:
    image = np.zeros((6, 6, 4), dtype=np.uint8)
    image[:3, :, 3] = 255
    pixels = pixels_of(image, RGB)
    assert (pixels[:3] == 0).all()
    assert (pixels[3:] == 255).all()


def test_the_orientation_of_a_photograph_is_applied_and_the_photograph_not_changed() -> None:
    image = Image.fromarray(IMAGES[0])
    image.getexif()[0x0112] = 3  # upside down
    np.testing.assert_array_equal(pixels_of(image, RGB), IMAGES[0][::-1, ::-1])
    np.testing.assert_array_equal(np.asarray(image), IMAGES[0])
    assert image.getexif()[0x0112] == 3


def test_an_image_that_is_opened_but_not_read_yet(tmp_path: Path) -> None:
    (tmp_path / "1.png").write_bytes(encoded(IMAGES[0]))
    (tmp_path / "cut.jpg").write_bytes(encoded(IMAGES[0], "JPEG")[:-30])
    with Image.open(tmp_path / "1.png") as image, Image.open(tmp_path / "cut.jpg") as cut:
        np.testing.assert_array_equal(pixels_of(image, RGB), IMAGES[0])
        with pytest.raises(ConfigError, match="sample 0 cannot be decoded"):
            features_of([cut], flat())


def test_images_of_16_bits() -> None:
    deep = Image.fromarray(RNG.integers(0, 65536, (6, 6), dtype=np.uint16))
    np.testing.assert_array_equal(pixels_of(deep, GREY)[..., 0], np.rint(np.asarray(deep) / 257))


def test_images_of_different_sizes() -> None:
    several = [np.full((side, 2 * side, 3), side, dtype=np.uint8) for side in (3, 9, 40)]
    np.testing.assert_array_equal(features_of(several, flat())[:, 0], [3, 9, 40])


@pytest.mark.parametrize(
    ("sample", "problem"),
    [
        (np.zeros((3, 3), dtype=int), "sample 1 has numbers of type int"),
        (np.full((3, 3), 1.5), "sample 1 has numbers outside of 0 to 1"),
        (np.full((3, 3), np.nan), "sample 1 has numbers outside of 0 to 1"),
        (np.zeros((3, 3, 2), dtype=np.uint8), r"sample 1 has the shape \(3, 3, 2\)"),
        (np.zeros(3, dtype=np.uint8), r"sample 1 has the shape \(3,\)"),
        (np.zeros((0, 3), dtype=np.uint8), "sample 1 has no pixels"),
        (np.zeros((1, 70_000), dtype=np.uint8), "sample 1 claims to be 70000x1"),
        (Image.new("F", (3, 3)), "sample 1 cannot be decoded"),
        (b"bytes", "sample 1 is a bytes"),
        (None, "sample 1 is a NoneType"),
    ],
)
def test_samples_of_the_wrong_kind_are_named(sample: Any, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        features_of([IMAGES[0], sample], flat())


@pytest.mark.parametrize(
    ("samples", "problem"),
    [
        ("image.png", "must be a list"),
        (Path("image.png"), "must be a list"),
        (Image.new("RGB", (3, 3)), "must be a list"),
        (IMAGES[0], "is one image"),
        (IMAGES[0, 0], r"\(N, H, W\)"),
        ([], "no samples"),
        (7, "must be a list"),
    ],
)
def test_what_is_no_list_of_images_is_refused(samples: Any, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        features_of(samples, flat())


def test_broken_files_are_named(tmp_path: Path) -> None:
    (tmp_path / "text.png").write_bytes(b"no image")
    (tmp_path / "cut.png").write_bytes(encoded(IMAGES[0])[:-20])
    samples = [IMAGES[0], tmp_path / "text.png", IMAGES[1], tmp_path / "cut.png", tmp_path / "none.png", tmp_path]
    with pytest.raises(DataError, match=r"sample 1: .*text\.png is not an image of a known type; 3 more"):
        features_of(samples, flat())
    found = readable_features(samples, flat())
    assert found.rows.tolist() == [0, 2]
    assert list(found.broken) == [1, 3, 4, 5]
    np.testing.assert_array_equal(found.features, rows(IMAGES[:2]))


def test_nothing_can_be_read(tmp_path: Path) -> None:
    found = readable_features([tmp_path / "none.png"], flat())
    assert len(found.features) == 0
    assert len(found.broken) == 1


def test_a_bomb_is_refused(tmp_path: Path) -> None:
    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", 30_000, 30_000, 8, 2, 0, 0, 0))
    (tmp_path / "bomb.png").write_bytes(b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", b"") + chunk(b"IEND", b""))
    with pytest.raises(DataError, match=r"bomb\.png claims to .* pixels"):
        features_of([tmp_path / "bomb.png"], flat())


def test_batches_and_progress(tmp_path: Path) -> None:
    """More images than a batch, some of them broken, with a cache that knows some."""
    images = RNG.integers(0, 256, (2 * BATCH + 3, 6, 6, 3), dtype=np.uint8)
    samples: list[Any] = [*images[:-1], tmp_path / "none.png", images[-1]]
    reported: list[int] = []

    def start(name: str, total: int) -> ReportProgress:
        assert total == len(samples)

        def report(done: int, metrics: Mapping[str, float]) -> None:
            reported.append(done)

        return report

    cache = FeatureCache(tmp_path / "cache")
    cache.features(flat(), images[10:20])
    found = readable_features(samples, flat(), cache, start)
    np.testing.assert_array_equal(found.features, rows(images))
    assert reported == sorted(reported)
    assert reported[-1] == len(samples)
    np.testing.assert_array_equal(features_of(images, flat(), cache), rows(images))


def test_vectors() -> None:
    x = RNG.normal(size=(5000, 3))
    np.testing.assert_array_equal(features_of(x, Vectors()), x.astype(np.float32))
    np.testing.assert_array_equal(features_of([[1, 2], [3, 4]], Vectors()), [[1, 2], [3, 4]])


@pytest.mark.parametrize(
    "x", [[1.0, 2.0], [[1.0, np.nan]], [[1e300]], [["a"]], [[1, 2], [3]], np.zeros((0, 3)), IMAGES]
)
def test_what_is_no_vector_is_refused(x: Any) -> None:
    with pytest.raises(ConfigError, match=r"rows of numbers|sample 0 has NaN"):
        features_of(x, Vectors())


def test_features_that_are_not_finite_are_refused() -> None:
    backbone = FunctionBackbone(lambda x: (x.flatten(1) - x.flatten(1)) / x.flatten(1), ImageInput(6))
    with pytest.raises(ConfigError, match="features of sample 1 are not finite"):
        features_of([np.full((6, 6), 9, dtype=np.uint8), np.zeros((6, 6), dtype=np.uint8)], backbone)
