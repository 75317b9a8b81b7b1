"""Tasks from pictures that lie, class after class, in one array of bytes."""

import logging
from collections.abc import Sequence
from typing import final

import numpy as np
from jaxtyping import Int, UInt8

from eigen_reptile.data.bank import Bank, DataError, Samples, TaskShape

log = logging.getLogger(__name__)


@final
class ImageBank(Bank):
    """The pictures of one split: `sizes[i]` pictures of the class `names[i]`, one class after the other.

    With `turned`, each class turned by 90, 180 and 270 degrees is a class of its own. Those that are not turned are
    numbered first, then those turned by 90 degrees, and so on.
    """

    def __init__(
        self, pixels: UInt8[np.ndarray, "N H W C"], names: Sequence[str], sizes: Sequence[int], turned: bool = False
    ) -> None:
        self.pixels = pixels
        self.names = tuple(names)
        self.sizes = np.asarray(sizes, dtype=np.int64)
        self._starts = np.concatenate([[0], np.cumsum(self.sizes)[:-1]])
        self._turns = 4 if turned else 1
        self._rows: np.ndarray = np.arange(int(self.sizes.sum()))
        self._right = np.ones(len(self._rows), dtype=bool)

    @property
    def labels(self) -> Int[np.ndarray, "N"]:
        """The class under which each picture lies here, by its number."""
        return np.repeat(np.arange(len(self.names)), self.sizes)

    def relabelled(self, given: Int[np.ndarray, "N"]) -> "ImageBank":
        """The same pictures under other classes, and the knowledge of which are wrong; -1 leaves a picture out."""
        order = np.argsort(given, kind="stable")[int((given < 0).sum()) :]
        sizes = np.bincount(given[order], minlength=len(self.names)).tolist()
        bank = ImageBank(self.pixels, self.names, sizes, self._turns > 1)
        bank._rows, bank._right = self._rows[order], (given == self.labels)[order]
        return bank

    @property
    def classes(self) -> int:
        """Classes that a task can draw from."""
        return int((self.sizes > 0).sum()) * self._turns

    @property
    def class_numbers(self) -> int:
        """With those of classes that wrong labels have emptied."""
        return len(self.names) * self._turns

    @property
    def shape(self) -> tuple[int, ...]:
        _, height, width, channels = self.pixels.shape
        return channels, height, width

    def fitted(self, task: TaskShape) -> TaskShape:
        """The task with fewer queries, if most classes are too small for those asked for.

        Half of the classes stay in; if that leaves no query, only as many as a task needs. Support without queries
        is for training, where a small class may repeat its pictures; queries must differ from the support and from
        each other.
        """
        if self.classes < task.way:
            raise DataError(
                f"a task of {task.way} classes cannot be drawn from {self.classes}: use a smaller --task.way"
            )
        if task.queries == 0:
            return task
        largest_first = np.sort(np.repeat(self.sizes[self.sizes > 0], self._turns))[::-1]
        half = max(task.way, -(-self.classes // 2))
        left = [int(largest_first[staying - 1]) - task.shots for staying in (half, task.way)]
        queries = min(task.queries, next((queries for queries in left if queries > 0), 0))
        if queries < 1:
            raise DataError(
                f"{task.way} classes with {task.shots} support pictures and a query each are needed, but only "
                f"{int((self.sizes > task.shots).sum()) * self._turns} have more than {task.shots} pictures: "
                "use fewer shots (--task.shots, --evaluation.shots), or add pictures"
            )
        short = [name for name, size in zip(self.names, self.sizes, strict=True) if size < task.shots + queries]
        if short:
            log.warning(
                "%d classes have fewer than %d pictures and are left out of %d-shot tasks: %s",
                len(short), task.shots + queries, task.shots, ", ".join(short[:5]) + (", ..." if short[5:] else ""),
            )  # fmt: skip
        if queries < task.queries:
            log.warning(
                "the classes leave %d queries each for %d-shot tasks, not %d", queries, task.shots, task.queries
            )
        return task._replace(queries=queries)

    def draw(self, count: int, task: TaskShape, rngs: Sequence[np.random.Generator]) -> Samples:
        lanes = [self._choose(count, task, rng) for rng in rngs]
        chosen, classes, turns = (np.stack(part) for part in zip(*lanes, strict=True))
        pictures = self._pictures(self._rows[chosen], turns)
        label = np.broadcast_to(np.arange(task.way)[:, None], pictures.shape[:4]).copy()

        def part(some: slice) -> tuple[np.ndarray, np.ndarray]:
            x, y = pictures[:, :, :, some], label[:, :, :, some]
            # Channels first, as networks expect, in a view: the bytes stay as they lie.
            x = np.moveaxis(x.reshape(*x.shape[:2], -1, *x.shape[4:]), -1, -3)
            return x, y.reshape(*y.shape[:2], -1)

        right = self._right[chosen[..., : task.shots]].reshape(*chosen.shape[:2], -1)
        numbers = classes + turns * len(self.names)
        return Samples(*part(slice(task.shots)), *part(slice(task.shots, None)), right, numbers)

    @property
    def size(self) -> int:
        return len(self._rows) * self._turns

    def take(self, numbers: Int[np.ndarray, "S B b"], rngs: Sequence[np.random.Generator]) -> Samples:
        turns, places = np.divmod(numbers, len(self._rows))
        x = np.moveaxis(self._pictures(self._rows[places], turns), -1, -3)
        y = self.labels[places] + turns * len(self.names)
        classes = np.broadcast_to(np.arange(self.class_numbers), (*numbers.shape[:2], self.class_numbers)).copy()
        return Samples(x, y, x[:, :, :0], y[:, :, :0], self._right[places], classes)

    def _choose(self, count: int, task: TaskShape, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
        """Numbers of pictures (count, way, shots + queries), classes (count, way), and quarter turns (count, way)."""
        needed = task.shots + task.queries
        usable = np.flatnonzero(self.sizes >= needed) if task.queries else np.flatnonzero(self.sizes)
        rows = np.empty((count, task.way, needed), dtype=np.int64)
        classes, turns = np.empty((2, count, task.way), dtype=np.int64)
        for number in range(count):
            picked = rng.choice(len(usable) * self._turns, size=task.way, replace=False)
            classes[number], turns[number] = usable[picked // self._turns], picked % self._turns
            for place, label in enumerate(classes[number]):
                rows[number, place] = self._starts[label] + _some(int(self.sizes[label]), needed, rng)
        return rows, classes, turns

    def _pictures(self, rows: np.ndarray, turns: np.ndarray) -> np.ndarray:
        pictures = np.array(self.pixels[rows])  # a copy in memory, out of the map
        for turn in range(1, self._turns):
            here = turns == turn
            pictures[here] = np.rot90(pictures[here], turn, axes=(-3, -2))
        return pictures


def _some(size: int, wanted: int, rng: np.random.Generator) -> np.ndarray:
    """`wanted` of the numbers below `size`, each once; where there are too few, whole rounds of all first."""
    rounds = [rng.permutation(size) for _ in range((wanted - 1) // size)]
    return np.concatenate([*rounds, rng.choice(size, size=wanted - size * len(rounds), replace=False)])
