"""Images from a formula, for tests of whole experiments."""

from dataclasses import dataclass
from typing import final

import numpy as np

from doubles import ImageDouble
from eigen_reptile.data import Banks, ImageBank
from eigen_reptile.inner import InnerConfig
from eigen_reptile.nn import Conv4
from eigen_reptile.runtime.progress import StartProgress
from eigen_reptile.tasks import TaskConfig
from eigen_reptile.training.config import Experiment, MetaConfig
from eigen_reptile.training.evaluate import EvalConfig


@final
@dataclass(frozen=True)
class Patterns(ImageDouble):
    """Each class is a random pattern of its own, and each of its images that pattern plus noise."""

    classes: int = 8
    """Classes in each split."""
    images: int = 9
    """Images of each class in the training and the validation split."""
    test_images: int = 9
    """Images of each class in the test split."""
    side: int = 8
    """Height; the width is one more, so that exchanging the two is an error."""

    def load(self, start_progress: StartProgress) -> Banks:
        return Banks(
            *(self._bank(split, count) for split, count in enumerate((self.images, self.images, self.test_images)))
        )

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
    evaluation=EvalConfig(
        tasks=4, monitor_tasks=3, every=4, shots=(1, 2), queries=3, inner_steps=(3,), batch=5, snapshot_steps=()
    ),
    seeds=(0, 1),
)
"""A whole experiment on images that takes about a second."""
