"""The benchmark compares like with like: the plain loop computes the library's update."""

import torch
from torch import nn

from eigen_reptile.bench import plain_reptile
from eigen_reptile.config import Experiment, MetaConfig
from eigen_reptile.methods import METHODS
from eigen_reptile.progress import silent
from eigen_reptile.stage import prepare
from eigen_reptile.train import TrainState, iterate, training_data


def test_plain_loop_and_library_take_the_same_step() -> None:
    exp = Experiment(method=METHODS["reptile"], meta=MetaConfig(batch=5, lr=(0.1,)))
    stage = prepare(exp, silent, "cpu")
    state = TrainState.fresh(stage)
    module = exp.model.build((1,), 1)
    nn.utils.vector_to_parameters(state.theta[0].clone(), module.parameters())
    after, _ = iterate(stage, exp.method.propose, state)
    plain_reptile(module, *training_data(stage, 0), exp.inner.lr, 0.1)
    theta = nn.utils.parameters_to_vector(module.parameters()).detach()
    torch.testing.assert_close(after.theta[0], theta, rtol=1e-5, atol=1e-6)
