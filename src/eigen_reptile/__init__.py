"""Few-shot learning that stands noise: Eigen-Reptile and its peers."""

from eigen_reptile.config import Experiment
from eigen_reptile.direction import MainDirection, main_direction
from eigen_reptile.experiment import run_experiment
from eigen_reptile.learner import Learner
from eigen_reptile.methods import METHODS

__all__ = ["METHODS", "Experiment", "Learner", "MainDirection", "main_direction", "run_experiment"]
