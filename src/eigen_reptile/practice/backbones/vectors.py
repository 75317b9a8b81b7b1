"""No backbone: samples that are feature vectors already, such as sentence embeddings or the columns of a table."""

from dataclasses import dataclass
from typing import final

from torch import nn

from eigen_reptile.practice.backbones.backbone import SavedBackbone, TorchBackbone


@final
@dataclass(frozen=True)
class Vectors(TorchBackbone):
    """Feature vectors as they are."""

    @property
    def fingerprint(self) -> str:
        return "vectors"

    @property
    def image_format(self) -> None:
        return None

    def saved(self) -> SavedBackbone:
        return SavedBackbone({"kind": "vectors"}, {})

    def as_module(self) -> nn.Module:
        return nn.Identity()
