"""What every head promises, whatever it computes."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from eigen_reptile.practice.heads import HEADS, Head, Support
from practice.heads.supports import clusters, with_wrong_labels

every_head = pytest.mark.parametrize("head", [pytest.param(head, id=name) for name, head in HEADS.items()])


def fitted(head: Head, support: Support, x: Tensor) -> Tensor:
    return head.fit(support).logits(x)


@every_head
def test_the_same_support_gives_the_same_bits(head: Head) -> None:
    support = clusters(3, 4, 10, seed=0, tasks=2)
    assert torch.equal(fitted(head, support, support.x), fitted(head, support, support.x))


@every_head
def test_easy_clusters_are_separated(head: Head) -> None:
    both = clusters(4, 12, 30, seed=1, spread=0.5, tasks=3)
    first = torch.arange(48).view(4, 12)
    support = Support(both.x[:, first[:, :5].flatten()], both.y[:, first[:, :5].flatten()], 4)
    queries = first[:, 5:].flatten()
    assert fitted(head, support, both.x[:, queries]).argmax(-1).equal(both.y[:, queries])


@every_head
def test_float32_features_are_enough(head: Head) -> None:
    support = clusters(3, 5, 16, seed=4)
    logits = fitted(head, support._replace(x=support.x.float()), support.x.float())
    assert logits.argmax(-1).equal(support.y)


@every_head
def test_the_order_of_samples_does_not_matter(head: Head) -> None:
    support = with_wrong_labels(clusters(3, 5, 8, seed=2, spread=1.0), 1)
    queries = clusters(3, 5, 8, seed=3).x
    order = torch.from_numpy(np.random.default_rng(0).permutation(15))
    shuffled = support._replace(x=support.x[:, order], y=support.y[:, order])
    torch.testing.assert_close(fitted(head, shuffled, queries), fitted(head, support, queries))


@every_head
def test_tasks_do_not_influence_each_other(head: Head) -> None:
    support = with_wrong_labels(clusters(3, 4, 10, seed=1, tasks=3, spread=1.0), 1)
    together = fitted(head, support, support.x)
    for number in range(3):
        one = Support(support.x[number : number + 1], support.y[number : number + 1], 3)
        torch.testing.assert_close(together[number : number + 1], fitted(head, one, one.x))


@every_head
def test_other_numbers_of_the_classes_permute_the_logits(head: Head) -> None:
    support = with_wrong_labels(clusters(4, 5, 12, seed=5, spread=1.0), 2)
    new_number = torch.tensor([2, 0, 3, 1])
    renamed = fitted(head, support._replace(y=new_number[support.y]), support.x)
    torch.testing.assert_close(renamed[..., new_number], fitted(head, support, support.x))


@every_head
def test_a_shift_and_a_scale_of_the_features_do_not_matter(head: Head) -> None:
    support = clusters(3, 4, 10, seed=6, spread=1.0)
    moved = support._replace(x=100 * support.x + 7)
    torch.testing.assert_close(fitted(head, moved, moved.x), fitted(head, support, support.x), rtol=1e-5, atol=1e-7)


def one_sample_a_class(support: Support) -> Support:
    return support._replace(x=support.x[:, ::5], y=support.y[:, ::5])


def unbalanced(support: Support) -> Support:
    kept = [0, 1, 2, 3, 4, 5, 6, 10]  # five, two and one
    return support._replace(x=support.x[:, kept], y=support.y[:, kept])


def with_an_empty_class(support: Support) -> Support:
    return support._replace(x=support.x[:, :10], y=support.y[:, :10])


def with_one_class(support: Support) -> Support:
    return support._replace(x=support.x[:, :5], y=support.y[:, :5])


def with_duplicates(support: Support) -> Support:
    return support._replace(x=support.x[:, [0, 5, 10]].repeat_interleave(5, 1))


def with_duplicates_of_other_labels(support: Support) -> Support:
    return support._replace(x=support.x[:, [0, 5, 10]].repeat(1, 5, 1))


def with_constant_features(support: Support) -> Support:
    return support._replace(x=torch.ones_like(support.x))


def with_a_single_sample(support: Support) -> Support:
    return support._replace(x=support.x[:, :1], y=support.y[:, :1])


DEGENERATE = [
    one_sample_a_class,
    unbalanced,
    with_an_empty_class,
    with_one_class,
    with_duplicates,
    with_duplicates_of_other_labels,
    with_constant_features,
    with_a_single_sample,
]


@pytest.mark.parametrize("degenerate", DEGENERATE)
@every_head
def test_logits_are_finite(head: Head, degenerate: Callable[[Support], Support]) -> None:
    support = clusters(3, 5, 8, seed=7)
    logits = fitted(head, degenerate(support), support.x)
    assert logits.shape == (1, 15, 3)
    assert logits.isfinite().all()


@pytest.mark.parametrize("degenerate", [one_sample_a_class, unbalanced, with_duplicates])
@every_head
def test_few_samples_are_learnt(head: Head, degenerate: Callable[[Support], Support]) -> None:
    support = degenerate(clusters(3, 5, 40, seed=8))
    assert fitted(head, support, support.x).argmax(-1).equal(support.y)
