"""Heads: classifiers of feature vectors, learnt from few labels."""

from eigen_reptile.practice.heads.head import FittedHead, Head, LinearHead, Support
from eigen_reptile.practice.heads.logistic import Logistic
from eigen_reptile.practice.heads.nearest_neighbours import FittedNeighbours, NearestNeighbours
from eigen_reptile.practice.heads.prototypes import MeanPrototypes
from eigen_reptile.practice.heads.rnnp import Rnnp
from eigen_reptile.practice.heads.robust_linear import RobustLinear
from eigen_reptile.practice.heads.similarity_weighted import SimilarityWeighted
from eigen_reptile.practice.heads.spatial_median import SpatialMedian
from eigen_reptile.practice.heads.trust import LabelTrust, Trust

HEADS: dict[str, Head] = {
    "trust": Trust(),
    "mean": MeanPrototypes(),
    "spatial-median": SpatialMedian(),
    "similarity-weighted": SimilarityWeighted(),
    "nearest-neighbours": NearestNeighbours(),
    "rnnp": Rnnp(),
    "logistic": Logistic(),
    "robust-linear": RobustLinear(),
}

__all__ = [
    "HEADS",
    "FittedHead",
    "FittedNeighbours",
    "Head",
    "LabelTrust",
    "LinearHead",
    "Logistic",
    "MeanPrototypes",
    "NearestNeighbours",
    "Rnnp",
    "RobustLinear",
    "SimilarityWeighted",
    "SpatialMedian",
    "Support",
    "Trust",
]
