"""What the banks and data sets that only tests use have in common."""

from dataclasses import dataclass

from eigen_reptile.data import Bank, Dataset, TaskShape


@dataclass(frozen=True)
class ImageDouble(Dataset):
    """A data set of images, but not of characters."""

    @property
    def is_classification(self) -> bool:
        return True

    @property
    def has_characters(self) -> bool:
        return False


class WrappedBank(Bank):
    """A bank that describes its tasks like another one; only how they are drawn is different."""

    def __init__(self, bank: Bank) -> None:
        self.bank = bank

    @property
    def shape(self) -> tuple[int, ...]:
        return self.bank.shape

    @property
    def n_classes(self) -> int:
        return self.bank.n_classes

    def feasible_shape(self, task: TaskShape) -> TaskShape:
        return self.bank.feasible_shape(task)
