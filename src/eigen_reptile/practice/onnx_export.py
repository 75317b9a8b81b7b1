"""A classifier as one ONNX file, which is compared with the original before it is kept."""

import json
import logging
import warnings
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np
import torch
from jaxtyping import Shaped
from torch import Tensor, nn

from eigen_reptile.errors import ConfigError, RunError
from eigen_reptile.practice.classifier import FewShotClassifier
from eigen_reptile.practice.heads import LinearHead
from eigen_reptile.runtime.files import write_atomically

LARGEST_DIFFERENCE = 1e-4
"""Largest accepted difference between the probabilities of PyTorch and of onnxruntime."""
EXAMPLES = 8
"""Random samples, of each kind, on which both are compared."""
INSTALL = "pip install 'eigen-reptile[onnx]'"
INPUT, PROBABILITIES, P_VALUE = "samples", "probabilities", "p_value"


class Exported(NamedTuple):
    """What was written."""

    path: Path
    difference: float
    """The largest difference between the probabilities of PyTorch and of onnxruntime."""
    samples: int
    """Number of samples on which both were compared."""


@final
class _Whole(nn.Module):
    """From bytes (N, H, W, C) or vectors to probabilities, and to p-values if something is rejected."""

    def __init__(self, classifier: FewShotClassifier, backbone: nn.Module, head: LinearHead) -> None:
        super().__init__()
        self.backbone = backbone
        self.is_image = classifier.backbone_.image_format is not None
        self.head = nn.Linear(head.weight.shape[2], head.weight.shape[1])
        self.head.weight = nn.Parameter(head.weight[0].float(), requires_grad=False)
        self.head.bias = nn.Parameter(head.bias[0].float(), requires_grad=False)
        self.rejection = classifier.learnt_.rejection

    def forward(self, samples: Tensor) -> tuple[Tensor, ...]:
        x = self.backbone(samples.permute(0, 3, 1, 2) if self.is_image else samples)
        probabilities = self.head(x).softmax(-1)
        return (probabilities,) if self.rejection is None else (probabilities, self.rejection.p_value(x.double()))


def export_onnx(
    classifier: FewShotClassifier, path: Path, samples: Shaped[np.ndarray, "N *shape"] | None = None
) -> Exported:
    """Write the classifier as one ONNX file, from bytes (N, H, W, C) of the backbone's size, or from vectors.

    Its answers are compared with those of PyTorch on random samples, and on `samples` if there are some; if they
    differ, no file is left behind. Names of classes and everything else that its user needs are in its metadata.
    """
    _check_installed()
    backbone, fitted = classifier.backbone_.as_module(), classifier.learnt_.fitted
    if backbone is None:
        raise ConfigError(f"the backbone {type(classifier.backbone_).__name__} is not a PyTorch module: no ONNX export")
    if not isinstance(fitted, LinearHead):
        raise ConfigError(f"the head {classifier.learnt_.head} is not linear in the features: no ONNX export")
    examples = _examples(classifier)
    if samples is not None:
        examples = np.concatenate([examples, samples])
    data = _written(_Whole(classifier, backbone, fitted).eval(), torch.tensor(examples[:2]), _metadata(classifier))
    difference = _largest_difference(data, classifier, examples)
    if not difference <= LARGEST_DIFFERENCE:
        raise RunError(
            f"the answers of ONNX and PyTorch differ by {difference:.2g}, more than {LARGEST_DIFFERENCE:g}: "
            f"{path} is not written"
        )
    write_atomically(path, data)
    return Exported(path, difference, len(examples))


def _check_installed() -> None:
    try:
        import onnx  # noqa: F401
        import onnxruntime  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise ConfigError(f"the package {error.name} is not installed: {INSTALL}") from error


def _examples(classifier: FewShotClassifier) -> Shaped[np.ndarray, "N *shape"]:
    """Random bytes; or the vectors learnt from, as they are and moved at random."""
    rng = np.random.default_rng(0)
    if classifier.backbone_.image_format is not None:
        shape = EXAMPLES, *classifier.backbone_.image_format.shape
        noise = rng.integers(0, 256, shape, dtype=np.uint8)
        plain = np.broadcast_to(rng.integers(0, 256, (EXAMPLES, 1, 1, shape[3]), dtype=np.uint8), shape)
        return np.concatenate([noise, plain])
    return rng.normal(size=(2 * EXAMPLES, classifier.n_features_in_)).astype(np.float32)


def _metadata(classifier: FewShotClassifier) -> dict[str, str]:
    image_format = classifier.backbone_.image_format
    about: dict[str, Any] = {"classes": [*map(str, classifier.classes_)], "input": "vectors of float32"}
    if image_format is not None:
        about["input"] = f"images of uint8 (N, height, width, channels), {image_format.mode}, upright, on white"
        about["size"] = image_format.size
        about["resize"] = "the whole image, bicubic as in Pillow, to size x size, without keeping its proportions"
    if classifier.reject is not None:
        about |= {"reject": float(classifier.reject), "unknown": str(classifier.unknown_)}
    return {name: value if isinstance(value, str) else json.dumps(value) for name, value in about.items()}


def _written(module: _Whole, examples: Tensor, metadata: dict[str, str]) -> bytes:
    """The ONNX file, with a batch of any size."""
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    names = [PROBABILITIES] if module.rejection is None else [PROBABILITIES, P_VALUE]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the exporter, about itself
        program = torch.onnx.export(
            module,
            (examples,),
            input_names=[INPUT],
            output_names=names,
            dynamic_shapes=({0: torch.export.Dim("N")},),
            dynamo=True,
            verbose=False,
        )
    if program is None:
        raise RunError("the ONNX exporter of PyTorch returned nothing")
    program.model.metadata_props.update(metadata)
    data: bytes = program.model_proto.SerializeToString()  # all weights inside
    return data


def _largest_difference(data: bytes, classifier: FewShotClassifier, examples: Shaped[np.ndarray, "N *shape"]) -> float:
    """The largest difference of probabilities, over batch sizes that the exporter has not seen; 1 if different samples
    are rejected."""
    import onnxruntime

    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    parts = [session.run(None, {INPUT: batch}) for batch in (examples[:1], examples[1:])]
    found, *p_values = (np.concatenate(both) for both in zip(*parts, strict=True))
    features = classifier.backbone_.features(examples)
    if p_values:
        expected = classifier.learnt_.p_values(features) <= classifier.reject
        if ((p_values[0] <= classifier.reject) != expected).any():
            return 1.0
    return float(np.abs(found - classifier.learnt_.probabilities(features)).max())
