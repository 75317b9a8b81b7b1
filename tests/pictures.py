"""Pictures from a formula, for tests of whole experiments."""

from dataclasses import dataclass

import numpy as np

from eigen_reptile.config import Experiment, MetaConfig
from eigen_reptile.data import Banks, Dataset, ImageBank
from eigen_reptile.evaluate import EvalConfig
from eigen_reptile.inner import InnerConfig
from eigen_reptile.models import Conv4
from eigen_reptile.progress import Announce
from eigen_reptile.tasks import TaskConfig


@dataclass(frozen=True)
class Patterns(Dataset):
    """Each class is a random pattern of its own, and each of its pictures that pattern under noise."""

    classes: int = 8
    """Classes in each split."""
    test_pictures: int = 9
    """Pictures of each class in the test split; the others have 9."""
    side: int = 8
    """Height; the width is one more, so that exchanging the two is an error."""

    @property
    def classifies(self) -> bool:
        return True

    def load(self, announce: Announce) -> Banks:
        return Banks(*(self._bank(split, count) for split, count in enumerate((9, 9, self.test_pictures))))

    def _bank(self, split: int, count: int) -> ImageBank:
        rng = np.random.default_rng(split)
        pattern = rng.integers(256, size=(self.classes, 1, self.side, self.side + 1, 3))
        noise = rng.integers(-120, 121, size=(self.classes, count, *pattern.shape[2:]))
        pixels = np.clip(pattern + noise, 0, 255).astype(np.uint8).reshape(-1, *pattern.shape[2:])
        return ImageBank(pixels, [f"{split}-{number}" for number in range(self.classes)], [count] * self.classes)


SMALL = Experiment(
    data=Patterns(),
    model=Conv4(filters=4),
    task=TaskConfig(way=3, shots=3),
    inner=InnerConfig(steps=2, batch=5, lr=0.01, optimizer="adam"),
    meta=MetaConfig(steps=20, batch=2, keep="best"),
    evaluation=EvalConfig(tasks=4, monitor_tasks=3, every=4, shots=(1, 2), queries=3, after=(3,), batch=5, pictures=()),
    seeds=(0, 1),
)
"""A whole experiment on pictures, in about a second."""
