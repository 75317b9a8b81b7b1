"""Measurements of what practitioners use: heads and the audit, on features of a pretrained backbone."""

from collections.abc import Callable

from eigen_reptile.recipes.practice.calibration import calibration_on_cifar10n
from eigen_reptile.recipes.practice.head_accuracy import heads_on_cifar_fs, heads_on_omniglot
from eigen_reptile.recipes.practice.label_errors import errors_of_cifar10n, errors_of_cifar_fs, errors_of_ten_images
from eigen_reptile.recipes.study import Study
from eigen_reptile.runtime.progress import StartProgress

PRACTICE: dict[str, Callable[[StartProgress], Study]] = {
    "heads": heads_on_cifar_fs,
    "heads-omniglot": heads_on_omniglot,
    "label-errors": errors_of_cifar10n,
    "label-errors-ten": errors_of_ten_images,
    "label-errors-cifar-fs": errors_of_cifar_fs,
    "calibration": calibration_on_cifar10n,
}

__all__ = ["PRACTICE"]
