"""Randomness by address."""

from itertools import product
from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from eigen_reptile.runtime.rng import GeneratorPool, Purpose, generator_at

PURPOSES: tuple[Purpose, ...] = get_args(Purpose)
numbers = st.integers(0, 2**63 - 1)


def draws(generator: np.random.Generator) -> tuple[int, bytes, bytes]:
    """Draws of several kinds; the first leaves half of a 64-bit word in the generator's buffer."""
    return (
        int(generator.integers(9, dtype=np.uint32)),
        generator.random(5).tobytes(),
        generator.permutation(7).tobytes(),
    )


def test_an_address_always_draws_the_same_and_no_other_does() -> None:
    addresses = list(product((0, 1), PURPOSES, (0, 1, 2**40)))
    first = [generator_at(seed, purpose, step).random(4).tobytes() for seed, purpose, step in addresses]
    again = [generator_at(seed, purpose, step).random(4).tobytes() for seed, purpose, step in addresses]
    assert first == again
    assert len(set(first)) == len(addresses)


@given(numbers, numbers, st.sampled_from(PURPOSES))
@settings(max_examples=50, deadline=None)
def test_a_generator_is_philox_with_that_key_and_counter(seed: int, step: int, purpose: Purpose) -> None:
    key = np.array([seed, PURPOSES.index(purpose)], dtype=np.uint64)
    counter = np.array([0, 0, 0, step], dtype=np.uint64)
    slow = np.random.Generator(np.random.Philox(key=key, counter=counter))
    ours = generator_at(seed, purpose, step)
    assert ours.random(9).tolist() == slow.random(9).tolist()
    assert ours.integers(1000, size=9, dtype=np.int32).tolist() == slow.integers(1000, size=9, dtype=np.int32).tolist()


@pytest.mark.parametrize(
    ("purpose", "expected"),
    [
        ("init", 0.37152852520692015),
        ("tasks", 0.839297244801297),
        ("batches", 0.379252544979771),
        ("validation", 0.24475562315016863),
        ("test", 0.6350883696691453),
        ("snapshot", 0.568679654036216),
        ("noise", 0.5574043648237241),
        ("epochs", 0.5555779417772704),
    ],
)
def test_the_first_draws_are_those_of_the_first_version(purpose: Purpose, expected: float) -> None:
    assert generator_at(3, purpose, 7).random() == expected


calls = st.tuples(
    st.lists(numbers, min_size=1, max_size=3), st.sampled_from(PURPOSES), st.lists(numbers, min_size=1, max_size=4)
)


@given(st.lists(calls, min_size=1, max_size=6))
@settings(max_examples=50, deadline=None)
def test_a_pool_draws_what_new_generators_would_at_every_address(
    requests: list[tuple[list[int], Purpose, list[int]]],
) -> None:
    """Also after requests for more, for fewer, and for other purposes, whose generators were drawn from."""
    pool = GeneratorPool()
    for seeds, purpose, steps in requests:
        found = [draws(generator) for generator in pool.at(seeds, purpose, steps)]
        assert found == [draws(generator_at(seed, purpose, step)) for step in steps for seed in seeds]


def test_generators_of_different_purposes_are_independent() -> None:
    pool = GeneratorPool()
    for steps in (range(1), range(4, 7), range(2)):
        tasks, batches = (pool.at((3, 5), purpose, steps) for purpose in ("tasks", "batches"))
        expected = [generator_at(seed, "tasks", step) for step in steps for seed in (3, 5)]
        for ours, theirs, other in zip(tasks, expected, batches, strict=True):
            other.integers(9)
            assert draws(ours) == draws(theirs)


def test_the_next_call_for_the_same_purpose_reuses_the_generators() -> None:
    pool = GeneratorPool()
    first = pool.at((1, 2), "tasks", range(2))
    second = pool.at((1, 2), "tasks", range(2, 5))
    assert [id(generator) for generator in second[:4]] == [id(generator) for generator in first]
    assert len({id(generator) for generator in second}) == 6
    other_purpose, other_pool = pool.at((1,), "batches", range(1)), GeneratorPool().at((1,), "tasks", range(1))
    assert not {id(*other_purpose), id(*other_pool)} & {id(generator) for generator in second}
