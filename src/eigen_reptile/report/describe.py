"""What can be said about a method without running it, derived from the method object."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from eigen_reptile.methods import (
    Ecm,
    Gnn,
    GradientMethod,
    Maml,
    MetaCurvature,
    MetaDropout,
    Metal,
    Method,
    MixtFsl,
    RobustLoss,
    SparseMask,
    TrajectoryMethod,
    WithSampleSelection,
)
from eigen_reptile.methods.gradient.gradient_transform import NoTransform
from eigen_reptile.methods.gradient.objective import QueryLoss
from eigen_reptile.methods.method import no_extra_parameters

PACKAGE = "eigen_reptile.methods."

IDEAS = {
    "eigen-reptile-paper": "Eigen-Reptile as in the paper",
    "eigen-reptile-authors": "Eigen-Reptile as in the authors' code",
    "eigen-reptile-no-sign-fix": "Eigen-Reptile without correcting the sign of the main direction",
    "eigen-reptile-ispl-paper": "ISPL with the paper's threshold",
    "eigen-reptile-ispl-authors": "ISPL as in the authors' code",
    "fomaml": "MAML with the inner gradients treated as constants",
    "anil": "MAML that adapts only the last layer",
    "boil": "MAML that adapts all but the last layer",
    "average-unit-gradients": "along the mean of the unit vectors of the inner steps",
}
"""Ideas of methods that differ from another method only in the values of fields, which no docstring describes."""

EXTRA_PARAMETERS: dict[type, str] = {
    NoTransform: "",
    MetaCurvature: "gradient maps",
    SparseMask: "gradient mask",
    Metal: "loss networks",
    Gnn: "graph network",
    Ecm: "class vectors",
    MixtFsl: "class components",
}
"""What is meta-learnt besides the network. For other classes a general name is used."""


class Description(NamedTuple):
    """A method in a few words."""

    idea: str
    file: str
    """Relative to the folder of all methods."""
    meta_learnt: str
    gradients: str
    """Order of the derivatives in the meta-update."""


def describe_method(name: str, method: Method) -> Description:
    """The description of a method; `name` is its name in METHODS."""
    parts = list(_components(method))
    idea = IDEAS.get(name) or "; ".join(_idea(part) for part in parts)
    return Description(
        idea, _source_file(parts[-1]), _meta_learnt(_innermost(method)), _gradient_order(_innermost(method))
    )


def _components(method: Method) -> Iterator[object]:
    """The objects that a method is composed of, the most specific one last."""
    if isinstance(method, WithSampleSelection):
        yield from _components(method.method)
        yield method.selector
    elif isinstance(method, RobustLoss):
        yield from _components(method.method)
        yield method
    else:
        yield method
    if isinstance(method, Maml):
        if not isinstance(method.objective, QueryLoss):
            yield method.objective
        if not isinstance(method.transform, NoTransform):
            yield method.transform


def _innermost(method: Method) -> Method:
    """The method without its wrappers."""
    return _innermost(method.method) if isinstance(method, WithSampleSelection | RobustLoss) else method


def _idea(part: object) -> str:
    """The first sentence of the docstring, without the citation that it may begin with."""
    paragraph = " ".join((type(part).__doc__ or type(part).__name__).strip().split("\n\n")[0].split())
    citation, _, rest = paragraph.partition(": ")
    cited = rest and ("https://" in citation or re.search(r"\b(19|20)\d\d\b", citation))
    return re.split(r"\.(?:\s|$)", rest if cited else paragraph)[0]


def _source_file(part: object) -> str:
    return type(part).__module__.removeprefix(PACKAGE).replace(".", "/") + ".py"


def _meta_learnt(method: Method) -> str:
    network = "network"
    if isinstance(method, Maml | MetaDropout) and method.adapted.frozen:
        network += f" with {' and '.join(method.adapted.frozen)} layers"
    if isinstance(method, Maml):
        extra = EXTRA_PARAMETERS.get(type(method.transform), "gradient transform")
    elif method.requirements.extra_parameters is no_extra_parameters:
        extra = ""
    else:
        extra = EXTRA_PARAMETERS.get(type(method), "parameters of its own")
    return f"{network}, {extra}" if extra else network


def _gradient_order(method: Method) -> str:
    if not method.requirements.inner_loop:
        return "no inner loop"
    if isinstance(method, TrajectoryMethod):
        return "first"
    if isinstance(method, Maml | MetaDropout):
        return "first" if method.order == 1 else "second"
    return "second" if isinstance(method, GradientMethod) else "not known"
