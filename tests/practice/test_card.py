"""The card: leave-one-out and cross-validation against plain loops, the interval, and what it says."""

import numpy as np
import pytest
import torch

from blobs import blobs
from eigen_reptile import FewShotClassifier
from eigen_reptile.practice.heads import MeanPrototypes, Support, Trust
from eigen_reptile.practice.out_of_sample import MOST_LEFT_OUT, out_of_sample_predictions


@pytest.mark.parametrize("features", [8, 64])
def test_leave_one_out_is_that_of_a_loop(features: int) -> None:
    data = blobs(spread=1.5, wrong=1, features=features)
    y = torch.tensor(np.unique(data.y, return_inverse=True)[1])
    x = torch.tensor(data.x).double()
    found = out_of_sample_predictions(Trust(), Support(x[None], y[None], 4))
    for row in range(len(y)):
        kept = torch.arange(len(y)) != row
        head = Trust().fit(Support(x[None, kept], y[None, kept], 4))
        assert found[row] == head.logits(x[None, None, row])[0, 0].argmax()


def test_many_samples_are_predicted_by_heads_that_have_not_seen_them() -> None:
    """Vectors without any information: whoever had seen them would recognise many."""
    rng = np.random.default_rng(0)
    m = 3 * MOST_LEFT_OUT
    x, y = torch.tensor(rng.normal(size=(1, m, 500))), torch.tensor(rng.integers(0, 10, (1, m)))
    found = out_of_sample_predictions(MeanPrototypes(), Support(x, y, 10))
    assert float((found == y[0]).double().mean()) < 0.2
    seen = MeanPrototypes().fit(Support(x, y, 10)).logits(x)[0].argmax(-1)
    assert float((seen == y[0]).double().mean()) > 0.9


def test_a_card_counts_what_is_wrong() -> None:
    data = blobs(wrong=2)
    card = FewShotClassifier().fit(data.x, data.y).card([f"{number}.png" for number in range(24)])
    assert [row.samples for row in card.classes] == [6, 6, 6, 6]
    assert [row.distrusted for row in card.classes] == [2, 2, 2, 2]
    assert {one.sample for one in card.suspects} == {f"{row}.png" for row in np.flatnonzero(data.y != data.true)}
    assert all((one.given, one.suggested) == (data.y[row], data.true[row]) for row, one in rows_of(card.suspects))
    assert card.accuracy is not None
    assert (card.accuracy.correct, card.accuracy.samples) == (16, 24)  # the wrong labels count as errors
    # Wilson's interval of 16 in 24, from the formula
    p, n, z = 16 / 24, 24, 1.959964
    centre, half = p + z * z / (2 * n), z * np.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    assert card.accuracy.low == pytest.approx((centre - half) / (1 + z * z / n), abs=1e-5)
    assert card.accuracy.high == pytest.approx((centre + half) / (1 + z * z / n), abs=1e-5)
    text = "\n".join(card.lines())
    assert "8 distrusted" in text
    assert "66.7 %" in text


def rows_of(suspects: tuple) -> list:  # type: ignore[type-arg]
    return [(int(one.sample.removesuffix(".png")), one) for one in suspects]


def test_single_samples_have_no_accuracy() -> None:
    data = blobs(shots=1)
    card = FewShotClassifier().fit(data.x, data.y).card()
    assert card.accuracy is None
    assert [row.recognised for row in card.classes] == [None] * 4
    mixed = FewShotClassifier().fit(np.concatenate([data.x, data.x[:1] + 0.01]), [*data.y, data.y[0]]).card()
    assert mixed.accuracy is not None
    assert mixed.accuracy.samples == 2
