"""Tasks from images that are stored class by class in one array of bytes."""

import logging
from collections.abc import Sequence
from typing import final

import numpy as np
from jaxtyping import Bool, Int, UInt8

from eigen_reptile.data.bank import Bank, FiniteBank, Samples, TaskShape
from eigen_reptile.errors import DataError
from eigen_reptile.runtime.text import printable

log = logging.getLogger(__name__)


@final
class ImageBank(FiniteBank):
    """The images of one split: `sizes[i]` images of the class `names[i]`, one class after the other.

    With `rotations`, each class rotated by 90, 180 and 270 degrees counts as a class of its own. The indices of the
    unrotated classes come first, then those rotated by 90 degrees, and so on. `rows` are the positions of the images in
    `pixels` if they are not in order, and `is_clean` says whether their class is the true one. Images of one of the
    `groups` are never both in the support and among the queries of a task.
    """

    def __init__(
        self,
        pixels: UInt8[np.ndarray, "N H W C"],
        names: Sequence[str],
        sizes: Sequence[int],
        rotations: bool = False,
        rows: Int[np.ndarray, "M"] | None = None,
        is_clean: Bool[np.ndarray, "M"] | None = None,
        groups: Int[np.ndarray, "M"] | None = None,
    ) -> None:
        self.pixels = pixels
        self.names = tuple(names)
        self.sizes = np.asarray(sizes, dtype=np.int64)
        self._starts = np.concatenate([[0], np.cumsum(self.sizes)[:-1]])
        self._n_rotations = 4 if rotations else 1
        self._rows: np.ndarray = np.arange(int(self.sizes.sum())) if rows is None else rows
        self._is_clean = np.ones(len(self._rows), dtype=bool) if is_clean is None else is_clean
        self._groups = groups
        self._usable_sizes = self.sizes if groups is None else self._sizes_by_group(groups)

    def _sizes_by_group(self, groups: Int[np.ndarray, "M"]) -> Int[np.ndarray, "classes"]:
        """Images of each class that a task can count on: in the worst case, one image of its largest group is in the
        support, and no other of that group can be used."""
        largest = [
            np.unique(groups[start : start + size], return_counts=True)[1].max(initial=1)
            for start, size in zip(self._starts, self.sizes, strict=True)
        ]
        usable: np.ndarray = np.where(self.sizes > 0, self.sizes - np.array(largest) + 1, 0)
        return usable

    @property
    def labels(self) -> Int[np.ndarray, "N"]:
        """The class index under which each image is stored."""
        return np.repeat(np.arange(len(self.names)), self.sizes)

    def with_labels(self, given: Int[np.ndarray, "N"]) -> "ImageBank":
        """The same images under other labels, and which of these are clean; -1 removes an image."""
        order = np.argsort(given, kind="stable")[int((given < 0).sum()) :]
        sizes = np.bincount(given[order], minlength=len(self.names)).tolist()
        is_clean = (given == self.labels)[order]
        groups = None if self._groups is None else self._groups[order]
        return ImageBank(self.pixels, self.names, sizes, self._n_rotations > 1, self._rows[order], is_clean, groups)

    @property
    def n_nonempty_classes(self) -> int:
        """Classes that a task can draw from; `n_classes` also counts those that label noise has emptied."""
        return int((self.sizes > 0).sum()) * self._n_rotations

    @property
    def n_classes(self) -> int:
        return len(self.names) * self._n_rotations

    @property
    def shape(self) -> tuple[int, ...]:
        _, height, width, channels = self.pixels.shape
        return channels, height, width

    def feasible_shape(self, task: TaskShape) -> TaskShape:
        """The task, with fewer queries if most classes are too small for the requested number.

        As many queries are kept as half of the classes can supply; if that is none, as many as `task.way` classes can
        supply. Without queries any class will do, because in training a small class may repeat its images; queries
        must differ from the support and from each other.
        """
        if self.n_nonempty_classes < task.way:
            raise DataError(
                f"a task of {task.way} classes cannot be drawn from {self.n_nonempty_classes}: use a smaller "
                "`task.way` or `evaluation.way`"
            )
        if task.queries == 0:
            return task
        queries = min(task.queries, self._most_queries(task))
        if queries < 1:
            raise DataError(
                f"{task.way} classes with {task.shots} support images and a query image each are needed, but only "
                f"{int((self._usable_sizes > task.shots).sum()) * self._n_rotations} have more than {task.shots} images"
                f"{'' if self._groups is None else ' in several groups'}: use fewer shots (`task.shots`, "
                "`evaluation.shots`), or add images"
            )
        sizes = zip(self.names, self._usable_sizes, strict=True)
        short = [name for name, size in sizes if size < task.shots + queries]
        if short:
            log.warning(
                "%d classes have fewer than %d images%s and are excluded from %d-shot tasks: %s",
                len(short), task.shots + queries, "" if self._groups is None else " in several groups", task.shots,
                ", ".join(short[:5]) + (", ..." if short[5:] else ""),
            )  # fmt: skip
        if queries < task.queries:
            log.warning(
                "most classes are too small for %d queries in %d-shot tasks: using %d",
                task.queries, task.shots, queries,
            )  # fmt: skip
        return task._replace(queries=queries)

    def _most_queries(self, task: TaskShape) -> int:
        """Queries of each class that half of the classes can supply, or if that is none, that `task.way` of them can;
        0 if there are too few classes even for that."""
        largest_first = np.sort(np.repeat(self._usable_sizes[self.sizes > 0], self._n_rotations))[::-1]
        half = max(task.way, -(-self.n_nonempty_classes // 2))
        left = [int(largest_first[taking_part - 1]) - task.shots for taking_part in (half, task.way)]
        return next((queries for queries in left if queries > 0), 0)

    def draw_tasks(self, count: int, task: TaskShape, rngs: Sequence[np.random.Generator]) -> Samples:
        replicas = [self._choose(count, task, rng) for rng in rngs]
        chosen, classes, rotations = (np.stack(part) for part in zip(*replicas, strict=True))
        images = self._read_images(self._rows[chosen], rotations)
        label = np.broadcast_to(np.arange(task.way)[:, None], images.shape[:4]).copy()

        def part(some: slice) -> tuple[np.ndarray, np.ndarray]:
            x, y = images[:, :, :, some], label[:, :, :, some]
            # Channels first, as networks expect, but as a view: the bytes stay in channels-last order.
            x = np.moveaxis(x.reshape(*x.shape[:2], -1, *x.shape[4:]), -1, -3)
            return x, y.reshape(*y.shape[:2], -1)

        is_clean = self._is_clean[chosen[..., : task.shots]].reshape(*chosen.shape[:2], -1)
        class_indices = classes + rotations * len(self.names)
        return Samples(*part(slice(task.shots)), *part(slice(task.shots, None)), is_clean, class_indices)

    @property
    def size(self) -> int:
        return len(self._rows) * self._n_rotations

    def take(self, indices: Int[np.ndarray, "S B b"], rngs: Sequence[np.random.Generator]) -> Samples:
        rotations, positions = np.divmod(indices, len(self._rows))
        x = np.moveaxis(self._read_images(self._rows[positions], rotations), -1, -3)
        y = self.labels[positions] + rotations * len(self.names)
        classes = np.broadcast_to(np.arange(self.n_classes), (*indices.shape[:2], self.n_classes)).copy()
        return Samples(x, y, x[:, :, :0], y[:, :, :0], self._is_clean[positions], classes)

    def _choose(self, count: int, task: TaskShape, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
        """Positions of images (count, way, shots + queries), classes (count, way), quarter rotations (count, way)."""
        needed = task.shots + task.queries
        usable = np.flatnonzero(self._usable_sizes >= needed) if task.queries else np.flatnonzero(self.sizes)
        positions = np.empty((count, task.way, needed), dtype=np.int64)
        classes, rotations = np.empty((2, count, task.way), dtype=np.int64)
        for number in range(count):
            picked = rng.choice(len(usable) * self._n_rotations, size=task.way, replace=False)
            classes[number], rotations[number] = usable[picked // self._n_rotations], picked % self._n_rotations
            for label, class_index in enumerate(classes[number]):
                start, size = self._starts[class_index], int(self.sizes[class_index])
                if self._groups is None or not task.queries:
                    chosen = _choose_evenly(size, needed, rng)
                else:
                    chosen = _choose_apart(self._groups[start : start + size], task, rng)
                positions[number, label] = start + chosen
        return positions, classes, rotations

    def _read_images(self, rows: np.ndarray, rotations: np.ndarray) -> np.ndarray:
        images = np.array(self.pixels[rows])  # a copy in memory, because the pixels may be a memory-mapped file
        for rotation in range(1, self._n_rotations):
            mask = rotations == rotation
            images[mask] = np.rot90(images[mask], rotation, axes=(-3, -2))
        return images


def images_by_class(bank: Bank) -> dict[str, int] | None:
    """The number of images of each class, in the order of the class indices; None for a bank without named classes.

    Names are made printable, because a result is UTF-8, which names of folders need not be.
    """
    if not isinstance(bank, ImageBank):
        return None
    names = [printable(name) for name in bank.names]
    return dict(zip(names, bank.sizes.tolist(), strict=True)) if len(set(names)) == len(names) else None


def _choose_evenly(size: int, wanted: int, rng: np.random.Generator) -> np.ndarray:
    """`wanted` indices below `size`: distinct if there are enough, otherwise all of them as often as they fit, and
    distinct ones for the remainder."""
    rounds = [rng.permutation(size) for _ in range((wanted - 1) // size)]
    return np.concatenate([*rounds, rng.choice(size, size=wanted - size * len(rounds), replace=False)])


def _choose_apart(groups: Int[np.ndarray, "size"], task: TaskShape, rng: np.random.Generator) -> np.ndarray:
    """Distinct indices for the support and then for the queries, from different groups: about half of the groups, in
    random order, are for the support."""
    names, group = np.unique(groups, return_inverse=True)
    rank = rng.permutation(len(names))[group]
    in_order = np.sort(rank)
    least, most = in_order[task.shots - 1], in_order[len(groups) - task.queries] - 1
    last = np.clip((len(names) - 1) // 2, least, most)
    support = rng.choice(np.flatnonzero(rank <= last), task.shots, replace=False)
    queries = rng.choice(np.flatnonzero(rank > last), task.queries, replace=False)
    return np.concatenate([support, queries])
