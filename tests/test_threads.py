"""Work in threads gives what the same work gives one after the other, bit for bit."""

import threading
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch

from eigen_reptile import threads
from eigen_reptile.bench.conv4 import Noise, experiment
from eigen_reptile.config import Experiment
from eigen_reptile.evaluate import MODES, Start, evaluate
from eigen_reptile.methods import METHODS
from eigen_reptile.progress import silent
from eigen_reptile.stage import prepare
from eigen_reptile.state import TrainState
from eigen_reptile.threads import LARGE, side_by_side
from eigen_reptile.train import iterate, training_data

CPU = torch.device("cpu")


def set_cores(cores: int) -> None:
    """As at the start of a process. Afterwards it would also reach matrix products in threads that there are already:
    for those, the number of cores is one for the whole process, and the last word counts."""
    torch.set_num_threads(cores)
    threads._pool.cache_clear()


@pytest.fixture
def two_cores() -> Iterator[None]:
    before = torch.get_num_threads()
    set_cores(2)
    yield
    set_cores(before)


def at_work(number: int) -> tuple[int, int, int, bool]:
    return number, threading.get_ident(), torch.get_num_threads(), torch.is_grad_enabled()


def test_pieces_come_back_in_order_from_threads_that_have_one_core_each(two_cores: None) -> None:
    with torch.no_grad():
        found = list(side_by_side(at_work, [(number,) for number in range(50)], 1, CPU))
    assert [number for number, *_ in found] == list(range(50))
    assert threading.get_ident() not in {thread for _, thread, *_ in found}
    assert {(cores, recording) for *_, cores, recording in found} == {(1, False)}
    assert torch.get_num_threads() == 2


@pytest.mark.parametrize(("size", "device"), [(LARGE + 1, CPU), (1, torch.device("meta"))])
def test_large_pieces_and_those_of_another_device_stay_in_this_thread(
    two_cores: None, size: int, device: torch.device
) -> None:
    found = list(side_by_side(at_work, [(1,), (2,)], size, device))
    assert {(thread, cores) for _, thread, cores, _ in found} == {(threading.get_ident(), 2)}


def test_an_error_in_a_thread_is_an_error_here(two_cores: None) -> None:
    with pytest.raises(ZeroDivisionError):
        list(side_by_side(lambda number: 1 // number, [(1,), (0,)], 1, CPU))


def small(method: str) -> Experiment:
    exp = replace(experiment(12, 3, 4), method=METHODS[method], data=Noise(12, 3))
    return replace(exp, inner=replace(exp.inner, carry="shared"))


def trained(exp: Experiment, cores: int) -> TrainState:
    set_cores(cores)
    stage = prepare(exp, silent, "cpu")
    state = TrainState.fresh(stage)
    with torch.no_grad():
        for _ in range(4):
            state, _ = iterate(stage, exp.method.propose, state, *training_data(stage, state.step))
    return state


@pytest.mark.parametrize("method", ["reptile", "eigen-reptile"])
def test_training_gives_the_same_bits_on_any_number_of_cores(two_cores: None, method: str) -> None:
    one, two, many = (trained(small(method), cores) for cores in (1, 2, 4))
    for name, tensor in one.tensors().items():
        assert torch.equal(tensor.nan_to_num(), two.tensors()[name].nan_to_num()), name
        assert torch.equal(tensor.nan_to_num(), many.tensors()[name].nan_to_num()), name


def test_evaluation_gives_the_same_answers_on_any_number_of_cores(two_cores: None) -> None:
    exp = small("reptile")
    stage = prepare(exp, silent, "cpu")
    state = trained(exp, 1)
    start = Start(state.theta, state.memory, exp.inner, exp.method)
    found = []
    for cores in (1, 2):
        set_cores(cores)
        found.append(
            evaluate(
                stage.learner,
                stage.banks.test,
                start,
                exp.evaluation,
                "test",
                stage.tests[0],
                range(7),
                MODES,
                silent("", 0),
            )
        )
    assert np.array_equal(found[0].values, found[1].values)
