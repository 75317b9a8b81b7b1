"""What users pass as samples, and their features: paths, PIL images, arrays of images, or feature vectors."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int, Shaped, UInt8
from PIL import Image

from eigen_reptile.data.io.archives import FolderSource, UnreadableFileError
from eigen_reptile.data.io.images import ImageFormat, convert_image, read_image
from eigen_reptile.errors import ConfigError, DataError
from eigen_reptile.practice.backbones.backbone import Backbone
from eigen_reptile.practice.backbones.feature_cache import FeatureCache
from eigen_reptile.runtime.memory import check_memory
from eigen_reptile.runtime.progress import StartProgress, no_progress

BATCH = 32
"""Images whose features are computed at once; no more than these are in memory."""
VECTORS = 4096
"""The same for vectors."""
ALLOWED = (
    "paths of image files, PIL images, or arrays of one image each: (H, W), (H, W, 1), (H, W, 3) or (H, W, 4), "
    "uint8 or floating-point numbers from 0 to 1"
)


class ReadableFeatures(NamedTuple):
    """The features of all samples that can be read, and what is wrong with the others."""

    features: Float[np.ndarray, "M F"]
    rows: Int[np.ndarray, "M"]
    """Positions of these samples among those that were passed."""
    broken: dict[int, str]
    """What is wrong with each of the other samples, which are image files, by position."""


def features_of(
    samples: Any, backbone: Backbone, cache: FeatureCache | None = None, start_progress: StartProgress = no_progress
) -> Float[np.ndarray, "N F"]:
    """The features of every sample, in batches. DataError if an image file cannot be read, ConfigError if a sample is
    of the wrong kind; both say which."""
    found = readable_features(samples, backbone, cache, start_progress)
    if found.broken:
        row, reason = next(iter(found.broken.items()))
        more = f"; {len(found.broken) - 1} more cannot be read" if len(found.broken) > 1 else ""
        raise DataError(f"sample {row}: {reason}{more}")
    return found.features


def readable_features(
    samples: Any, backbone: Backbone, cache: FeatureCache | None = None, start_progress: StartProgress = no_progress
) -> ReadableFeatures:
    """The features of every sample that can be read; nothing else than an unreadable file is passed over."""
    compute = backbone.features if cache is None else partial(cache.features, backbone)
    rows: list[int] = []
    broken: dict[int, str] = {}
    if backbone.image_format is None:
        vectors = as_vectors(samples)
        rows, total = list(range(len(vectors))), len(vectors)
        batches: Iterable[np.ndarray] = np.array_split(vectors, -(-total // VECTORS))
    else:
        images = as_images(samples)
        total, batches = len(images), _pixels_in_batches(images, backbone.image_format, rows, broken)
    report = start_progress("computing features", total)
    features = _collected(map(compute, batches), total, lambda done: report(done + len(broken), {}))
    if len(bad := np.flatnonzero(~np.isfinite(features).all(1))):
        raise ConfigError(f"the backbone's features of sample {rows[bad[0]]} are not finite")
    report(total, {})
    return ReadableFeatures(features, np.array(rows, dtype=np.int64), broken)


def _collected(
    batches: Iterable[Float[np.ndarray, "b F"]], total: int, report: Callable[[int], None]
) -> Float[np.ndarray, "M F"]:
    """All batches in one array, which is allocated once."""
    features: np.ndarray = np.empty((0, 0), dtype=np.float32)
    done = 0
    for batch in batches:
        if not done:
            check_memory(4 * total * batch.shape[1], f"the features of {total} samples", "pass fewer samples at once")
            features = np.empty((total, batch.shape[1]), dtype=np.float32)
        features[done : done + len(batch)] = batch
        done += len(batch)
        report(done)
    return features[:done]


def as_vectors(samples: Any) -> Float[np.ndarray, "N F"]:
    """Feature vectors as float32, one in each row; ConfigError if the samples are none."""
    try:
        vectors = np.asarray(samples)
        vectors = vectors if vectors.dtype.kind in "fiub" else vectors.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"samples must be rows of numbers: {str(error)[:200]}") from error
    if vectors.ndim != 2 or not vectors.size:
        raise ConfigError(f"samples must be rows of numbers, an array (N, F), not one of shape {vectors.shape}")
    with np.errstate(over="ignore"):
        found = vectors.astype(np.float32)
    if len(bad := np.flatnonzero(~np.isfinite(found).all(1))):
        raise ConfigError(f"sample {bad[0]} has NaN, infinity, or a number that is too large for float32")
    return found


def as_images(samples: Any) -> Sequence[Any] | np.ndarray:
    """The samples as a sequence of single images; ConfigError if it is something else, such as one image."""
    if isinstance(samples, str | Path | Image.Image):
        raise ConfigError(f"samples must be a list, even of one image, not a {type(samples).__name__}")
    if isinstance(samples, np.ndarray) and samples.dtype.kind in "fiub":
        if samples.ndim == 3 and samples.shape[2] in (1, 3, 4):
            raise ConfigError(f"an array of shape {samples.shape} is one image: put it into a list")
        if samples.ndim not in (3, 4):
            raise ConfigError(
                f"images must be an array (N, H, W) or (N, H, W, channels), not one of shape {samples.shape}"
            )
    try:
        images = samples if isinstance(samples, np.ndarray | list | tuple) else list(samples)
    except TypeError as error:
        raise ConfigError(f"samples must be a list, not a {type(samples).__name__}") from error
    if not len(images):
        raise ConfigError("there are no samples")
    return images


def pixels_of(sample: Any, image_format: ImageFormat) -> UInt8[np.ndarray, "H W C"]:
    """The pixels of one image; UnreadableFileError if it is a file that cannot be read, otherwise ValueError."""
    if isinstance(sample, str | Path):
        path = Path(sample)
        return read_image(FolderSource(path.parent, depth=1), path.name, image_format)
    if isinstance(sample, np.ndarray):
        return convert_image(_image_of(sample), image_format)
    if isinstance(sample, Image.Image):
        return convert_image(sample, image_format)
    raise ValueError(f"is a {type(sample).__name__}: samples must be {ALLOWED}")


def _image_of(array: Shaped[np.ndarray, "..."]) -> Image.Image:
    """An image from bytes, or from numbers between 0 and 1."""
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[..., 0]
    if array.ndim != 2 and not (array.ndim == 3 and array.shape[2] in (3, 4)):
        raise ValueError(f"has the shape {array.shape}: samples must be {ALLOWED}")
    if not array.size:
        raise ValueError("has no pixels")
    if array.dtype.kind == "f":
        if not (array.min() >= 0 and array.max() <= 1):  # NaN is neither
            raise ValueError("has numbers outside of 0 to 1: divide by the largest possible, or pass uint8")
        array = np.rint(array.astype(np.float32) * 255)
    elif array.dtype != np.uint8:
        raise ValueError(f"has numbers of type {array.dtype}: they must be uint8, or floating-point from 0 to 1")
    return Image.fromarray(np.ascontiguousarray(array, dtype=np.uint8))


def _pixels_in_batches(
    images: Sequence[Any] | np.ndarray, image_format: ImageFormat, rows: list[int], broken: dict[int, str]
) -> Iterator[UInt8[np.ndarray, "b H W C"]]:
    """The pixels of all images that can be read; their positions are added to `rows`, the others to `broken`."""
    for start in range(0, len(images), BATCH):
        pixels = []
        for row in range(start, min(start + BATCH, len(images))):
            try:
                pixels.append(pixels_of(images[row], image_format))
            except UnreadableFileError as error:
                broken[row] = str(error)
            except ValueError as error:
                raise ConfigError(f"sample {row} {error}") from error
            else:
                rows.append(row)
        if pixels:
            yield np.stack(pixels)
