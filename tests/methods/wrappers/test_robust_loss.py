"""A robust loss around a method is used in training and in adaptation."""

import pytest
import torch

from eigen_reptile.methods import METHODS, Maml, Prototypical, RobustLoss
from eigen_reptile.nn import GeneralisedCrossEntropy
from meta_batches import adapted, gradient_of, image_experiment, meta_batch_of, predictions


def test_the_robust_loss_is_used_in_training_and_adaptation() -> None:
    plain = meta_batch_of(image_experiment(Maml()))
    robust = RobustLoss(Maml(), q=0.5)
    replaced = plain._replace(network=plain.network.with_loss(GeneralisedCrossEntropy(0.5)))
    torch.testing.assert_close(gradient_of(robust, plain), gradient_of(Maml(), replaced), rtol=0, atol=0)
    assert torch.equal(adapted(robust, plain), adapted(Maml(), replaced))
    assert not torch.equal(adapted(robust, plain), adapted(Maml(), plain))


def test_predictions_are_those_of_the_method() -> None:
    batch = meta_batch_of(image_experiment(Prototypical()))
    assert torch.equal(predictions(RobustLoss(Prototypical()), batch), predictions(Prototypical(), batch))


def test_a_selector_cannot_be_inside() -> None:
    with pytest.raises(ValueError, match="select samples for the robust method"):
        RobustLoss(METHODS["reptile-ispl"])
