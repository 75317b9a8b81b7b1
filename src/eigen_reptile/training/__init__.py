"""Experiments: their settings, training, evaluation and results."""

from eigen_reptile.training.config import Experiment, MetaConfig, Replica
from eigen_reptile.training.evaluate import EvalConfig
from eigen_reptile.training.experiment import run
from eigen_reptile.training.presets import preset
from eigen_reptile.training.result import Result
from eigen_reptile.training.serialise import from_json, to_json

__all__ = ["EvalConfig", "Experiment", "MetaConfig", "Replica", "Result", "from_json", "preset", "run", "to_json"]
