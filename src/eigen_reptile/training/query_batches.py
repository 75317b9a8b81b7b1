"""Which queries of a task share a batch, on whose statistics batch-norm depends."""

from typing import Literal, get_args

import torch
from jaxtyping import Float
from torch import Tensor

from eigen_reptile.methods import Method
from eigen_reptile.nn import Network
from eigen_reptile.tasks import Tasks

Mode = Literal["inductive", "transductive"]
MODES: tuple[Mode, ...] = get_args(Mode)


def predict_transductively(
    network: Network, method: Method, theta: Float[Tensor, "S T D"], tasks: Tasks
) -> Float[Tensor, "S T q way"]:
    """All queries of a task in one batch, whose statistics batch-norm then uses."""
    return method.predict(network, theta, tasks, tasks.query_x)


def predict_inductively(
    network: Network, method: Method, theta: Float[Tensor, "S T D"], tasks: Tasks
) -> Float[Tensor, "S T q way"]:
    """Each query in a batch with the support only, so that no query influences another."""
    queries = tasks.query_x.unsqueeze(3).unbind(2)
    support_added = method.requirements.support_in_batch
    batches = queries if support_added else (torch.cat([tasks.x, one], dim=2) for one in queries)
    return torch.stack([method.predict(network, theta, tasks, batch)[:, :, -1] for batch in batches], dim=2)


PREDICT = {"inductive": predict_inductively, "transductive": predict_transductively}
