"""Compiled functions: compiled once, and done without where that does not work."""

import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import Tensor

from eigen_reptile.compiled import Compiled, compiled
from eigen_reptile.config import Experiment, MetaConfig
from eigen_reptile.learner import Learner, class_error
from eigen_reptile.methods import METHODS, EigenReptile, Selected
from eigen_reptile.methods.robust import GeneralisedCrossEntropy
from eigen_reptile.models import Conv4, Mlp, Model


def broken(number: int) -> int:
    raise RuntimeError("no compiler")


def test_each_function_of_many_is_compiled() -> None:
    # Without compiling for the processor, which would take minutes; what gives up is the part before that.
    graphs = []

    def backend(graph: torch.fx.GraphModule, _: list[Tensor]) -> Callable[..., Any]:
        graphs.append(graph)
        return graph.forward

    def times(factor: int) -> Callable[[Tensor], Tensor]:
        return lambda x: factor * x

    many = torch._dynamo.config.recompile_limit + 3
    x = torch.ones(2)
    for factor in range(many):
        function = compiled(times(factor), backend=backend, fullgraph=True)
        assert torch.equal(function(x), factor * x)
        assert torch.equal(function(x), factor * x)
    assert len(graphs) == many


def test_what_does_not_compile_is_done_without(caplog: pytest.LogCaptureFixture) -> None:
    doubled = Compiled(broken, lambda number: 2 * number, required=False)
    assert [doubled(3), doubled(4)] == [6, 8]
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "RuntimeError" in caplog.text


def test_what_is_required_to_compile_says_why_it_does_not() -> None:
    with pytest.raises(RuntimeError, match="no compiler"):
        Compiled(broken, lambda number: number, required=True)(3)


def test_threads_wait_for_the_first_call() -> None:
    threads = 4
    ready, at_work = threading.Barrier(threads), []

    def slow(number: int) -> int:
        at_work.append(number)
        if len(at_work) == 1:
            assert not done.wait(0.2), "another call went through while the first was compiled"
        return number

    done = threading.Event()
    function = Compiled(slow, broken, required=True)

    def call(number: int) -> int:
        ready.wait()
        found = function(number)
        done.set()
        return found

    with ThreadPoolExecutor(threads) as pool:
        assert list(pool.map(call, range(threads))) == list(range(threads))


@pytest.mark.parametrize(
    ("model", "steps", "pays"),
    [
        (Mlp(), 3000, True),
        (Mlp(), 2999, False),
        (Mlp(hidden=(2000,)), 3000, False),
        (Conv4(), 1000, True),
        (Conv4(), 999, False),
    ],
)
def test_auto_compiles_where_it_pays(model: Model, steps: int, pays: bool) -> None:
    exp = Experiment(model=model, meta=MetaConfig(steps=steps))
    assert exp.compiles is pays
    assert Experiment(model=model, compile="on").compiles
    assert not Experiment(model=model, meta=MetaConfig(steps=steps), compile="off").compiles


def test_another_loss_is_not_that_which_was_compiled() -> None:
    plain = Learner(lambda: Conv4(2).build((1, 8, 8), 2), class_error)
    learner = plain.compiled()
    other = learner.with_loss(GeneralisedCrossEntropy(0.7))
    assert other is learner.with_loss(GeneralisedCrossEntropy(0.7))  # which the next iteration asks for
    assert learner.told(1)._compiled is None
    theta = plain.init(0)[None, None]
    x = torch.rand(1, 1, 4, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    batch = x, torch.tensor([[[0, 1, 1, 0]]]), torch.ones(1, 1, 4)
    for one, uncompiled in ((learner, plain), (other, plain.with_loss(GeneralisedCrossEntropy(0.7)))):
        assert one._compiled is not None
        assert uncompiled._compiled is None
        torch.testing.assert_close(one.gradient(theta, *batch), uncompiled.gradient(theta, *batch))


def test_a_method_inside_another_is_compiled_too() -> None:
    method = METHODS["eigen-reptile-ispl"]
    faster = method.compiled(required=False)
    assert isinstance(faster, Selected)
    assert isinstance(faster.method, EigenReptile)
    assert isinstance(faster.method.moves, Compiled)
    assert faster == method  # what it is, and what a run folder says of it, stays


def test_a_direction_of_several_chunks_compiles() -> None:
    # In a process of its own, because the compiler does not get through the checks of shapes that tests have.
    code = """
import torch
from eigen_reptile import direction
direction.CHUNK = 48
W = torch.randn(2, 4, 100, generator=torch.Generator().manual_seed(0), dtype=torch.float64).cumsum(1)
plain, _ = direction.main_direction_or_nan(W, length="net", fix_sign=True)
compiled, _ = torch.compile(direction.main_direction_or_nan, fullgraph=True)(W, length="net", fix_sign=True)
torch.testing.assert_close(compiled, plain)
"""
    subprocess.run([sys.executable, "-c", code], check=True)
