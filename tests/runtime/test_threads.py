"""Work in threads gives the same bits as the same work in sequence."""

import threading
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch

from eigen_reptile.methods import METHODS
from eigen_reptile.runtime.progress import no_progress
from eigen_reptile.runtime.threads import LARGE, map_in_threads, thread_pool
from eigen_reptile.training.config import Experiment
from eigen_reptile.training.data import TrainingData
from eigen_reptile.training.evaluate import Initialisation, evaluate
from eigen_reptile.training.loop import iterate
from eigen_reptile.training.query_batches import MODES
from eigen_reptile.training.setup import set_up
from eigen_reptile.training.state import TrainState
from patterns import SMALL

CPU = torch.device("cpu")


def set_cores(cores: int) -> None:
    """As at the start of a process: with new threads, because for matrix products in existing threads the number of
    cores is a setting of the whole process, and this call would change it."""
    torch.set_num_threads(cores)
    thread_pool.cache_clear()


@pytest.fixture
def two_cores() -> Iterator[None]:
    before = torch.get_num_threads()
    set_cores(2)
    yield
    set_cores(before)


def observe(number: int) -> tuple[int, int, int, bool]:
    return number, threading.get_ident(), torch.get_num_threads(), torch.is_grad_enabled()


def test_results_come_in_order_from_threads_with_one_core_each(two_cores: None) -> None:
    with torch.no_grad():
        found = list(map_in_threads(observe, [(number,) for number in range(50)], 1, CPU))
    assert [number for number, *_ in found] == list(range(50))
    assert threading.get_ident() not in {thread for _, thread, *_ in found}
    assert {(cores, recording) for *_, cores, recording in found} == {(1, False)}
    assert torch.get_num_threads() == 2


@pytest.mark.parametrize(("size", "device"), [(LARGE + 1, CPU), (1, torch.device("meta"))])
def test_large_pieces_and_other_devices_are_computed_in_this_thread(
    two_cores: None, size: int, device: torch.device
) -> None:
    found = list(map_in_threads(observe, [(1,), (2,)], size, device))
    assert {(thread, cores) for _, thread, cores, _ in found} == {(threading.get_ident(), 2)}


def test_an_error_in_a_thread_is_raised_in_the_caller(two_cores: None) -> None:
    with pytest.raises(ZeroDivisionError):
        list(map_in_threads(lambda number: 1 // number, [(1,), (0,)], 1, CPU))


def small(method: str) -> Experiment:
    return replace(SMALL, method=METHODS[method], inner=replace(SMALL.inner, carry="shared"))


def trained(exp: Experiment, cores: int) -> TrainState:
    set_cores(cores)
    setup = set_up(exp, no_progress, "cpu")
    state = TrainState.fresh(setup)
    with torch.no_grad():
        for _ in range(4):
            state, _ = iterate(setup, exp.method.meta_update, state, *TrainingData(setup).at(state.step))
    return state


@pytest.mark.parametrize("method", ["reptile", "eigen-reptile"])
def test_training_gives_the_same_bits_on_any_number_of_cores(two_cores: None, method: str) -> None:
    one, two, many = (trained(small(method), cores) for cores in (1, 2, 4))
    for name, tensor in one.tensors().items():
        assert torch.equal(tensor.nan_to_num(), two.tensors()[name].nan_to_num()), name
        assert torch.equal(tensor.nan_to_num(), many.tensors()[name].nan_to_num()), name


def test_evaluation_gives_the_same_scores_on_any_number_of_cores(two_cores: None) -> None:
    exp = small("reptile")
    setup = set_up(exp, no_progress, "cpu")
    state = trained(exp, 1)
    initialisation = Initialisation(state.theta, state.inner_state, exp.inner, exp.method)
    found = []
    for cores in (1, 2):
        set_cores(cores)
        found.append(
            evaluate(
                setup.network,
                setup.banks.test,
                initialisation,
                exp.evaluation,
                "test",
                setup.tests[0],
                range(7),
                MODES,
                no_progress("", 0),
            )
        )
    assert np.array_equal(found[0].values, found[1].values)
