"""The checks of types and shapes: in the first calls of each test and in a sample of the others, on real functions."""

import pytest
import torch
from jaxtyping import TypeCheckError

from eigen_reptile.direction import main_direction_or_nan
from eigen_reptile.training.config import MetaConfig
from first_calls import EVERY, FIRST, begin_test


def is_refused(wrong: object) -> bool:
    try:
        MetaConfig(steps=wrong)  # type: ignore[arg-type]
    except TypeCheckError:
        return True
    except TypeError:  # its own comparison with a number
        pass
    return False


def test_first_calls_and_a_sample_of_the_others_are_checked() -> None:
    numbers = range(1, 3 * EVERY + 1)
    assert [is_refused("many") for _ in numbers] == [one <= FIRST or one % EVERY == 0 for one in numbers]
    begin_test()
    assert is_refused("many")


def test_shapes_are_checked() -> None:
    with pytest.raises(TypeCheckError):
        main_direction_or_nan(torch.zeros(3), length="net", fix_sign=True)
