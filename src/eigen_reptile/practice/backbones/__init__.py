"""Backbones: fixed functions from samples to feature vectors."""

from eigen_reptile.practice.backbones.backbone import Backbone, SavedBackbone
from eigen_reptile.practice.backbones.efficientnet_lite import EfficientNetLite0
from eigen_reptile.practice.backbones.feature_cache import FeatureCache
from eigen_reptile.practice.backbones.find import BACKBONES, find_backbone, load_backbone
from eigen_reptile.practice.backbones.image_input import ImageInput
from eigen_reptile.practice.backbones.module import FunctionBackbone, ModuleBackbone
from eigen_reptile.practice.backbones.onnx_file import OnnxBackbone
from eigen_reptile.practice.backbones.trained_run import Pixels, RunBackbone, TrainedRun, read_trained_run
from eigen_reptile.practice.backbones.vectors import Vectors

__all__ = [
    "BACKBONES",
    "Backbone",
    "EfficientNetLite0",
    "FeatureCache",
    "FunctionBackbone",
    "ImageInput",
    "ModuleBackbone",
    "OnnxBackbone",
    "Pixels",
    "RunBackbone",
    "SavedBackbone",
    "TrainedRun",
    "Vectors",
    "find_backbone",
    "load_backbone",
    "read_trained_run",
]
