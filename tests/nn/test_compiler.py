"""Compiled functions: compiled once for each name, with a fallback where compiling does not work."""

import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import Tensor

from eigen_reptile.nn import Conv4, CrossEntropy, FlatModule, GeneralisedCrossEntropy, Mlp, Model, Network
from eigen_reptile.nn.compiler import Compiled, Compiler, compile_function
from eigen_reptile.training.config import Experiment, MetaConfig


def broken(*args: Any, **kwargs: Any) -> Any:
    raise RuntimeError("no compiler")


def counting_backend(graphs: list[torch.fx.GraphModule]) -> Callable[..., Any]:
    """A backend that records what is traced, and runs it without compiling it for the processor."""

    def backend(graph: torch.fx.GraphModule, _: list[Tensor]) -> Callable[..., Any]:
        graphs.append(graph)
        return graph.forward

    return backend


def times(factor: int) -> Callable[[Tensor], Tensor]:
    return lambda x: factor * x


def test_each_function_of_many_is_compiled() -> None:
    graphs: list[torch.fx.GraphModule] = []
    many = torch._dynamo.config.recompile_limit + 3
    x = torch.ones(2)
    for factor in range(many):
        function = compile_function(times(factor), backend=counting_backend(graphs), fullgraph=True)
        assert torch.equal(function(x), factor * x)
        assert torch.equal(function(x), factor * x)
    assert len(graphs) == many


def test_only_the_first_call_counts_graphs_because_torch_counts_those_of_all_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counter, calls = "set_fullgraph_compiled_frame_count", []
    count = getattr(torch._dynamo.eval_frame, counter, None)  # not in early versions
    if count is None:
        pytest.skip("this version of torch does not count graphs")

    def noted(number: int) -> int:
        calls.append(number)
        return int(count(number))

    function = compile_function(times(2), backend="eager", fullgraph=True)
    monkeypatch.setattr(torch._dynamo.eval_frame, counter, noted)
    for _ in range(3):
        assert function(torch.ones(2)).sum() == 4
    assert calls.count(0) == 1


def test_without_a_working_compiler_the_fallback_is_used(caplog: pytest.LogCaptureFixture) -> None:
    doubled: Compiled[[int], int] = Compiled(broken, lambda number: 2 * number, required=False)
    assert [doubled(3), doubled(4)] == [6, 8]
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "RuntimeError" in caplog.text


def test_if_compiling_is_required_its_error_is_raised() -> None:
    with pytest.raises(RuntimeError, match="no compiler"):
        Compiled(broken, broken, required=True)(3)


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
        found: int = function(number)
        done.set()
        return found

    with ThreadPoolExecutor(threads) as pool:
        assert list(pool.map(call, range(threads))) == list(range(threads))


@pytest.mark.parametrize(
    ("model", "steps", "pays_off"),
    [
        (Mlp(), 3000, True),
        (Mlp(), 2999, False),
        (Mlp(hidden=(2000,)), 3000, False),
        (Conv4(), 1000, True),
        (Conv4(), 999, False),
    ],
)
def test_auto_compiles_where_it_pays_off(model: Model, steps: int, pays_off: bool) -> None:
    exp = Experiment(model=model, meta=MetaConfig(steps=steps))
    assert exp.compiles is pays_off
    assert Experiment(model=model, compile="on").compiles
    assert not Experiment(model=model, meta=MetaConfig(steps=steps), compile="off").compiles


def test_a_network_with_a_compiler_has_the_same_gradients() -> None:
    plain = Network(FlatModule(lambda: Conv4(2).build((1, 8, 8), 2)), CrossEntropy())
    network = Network(plain.module, CrossEntropy(), compiler=Compiler(required=False))
    theta = plain.module.init(0)[None, None]
    x = torch.rand(1, 1, 4, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    samples = x, torch.tensor([[[0, 1, 1, 0]]]), torch.ones(1, 1, 4)
    for loss in (CrossEntropy(), GeneralisedCrossEntropy(0.7), CrossEntropy()):
        found, expected = (one.with_loss(loss).gradient(theta, *samples) for one in (network, plain))
        torch.testing.assert_close(found, expected)


# The next test runs in a process of its own, because the compiler cannot trace the checks of shapes that tests have.

TRACED = """
import torch
torch.set_num_threads(1)
plain_compile, graphs = torch.compile, []
def counted(graph, inputs):
    graphs.append(graph)
    return graph.forward
def traced_only(function, fullgraph, dynamic, options, backend):
    return plain_compile(function, fullgraph=fullgraph, backend=counted)
torch.compile = traced_only
from eigen_reptile.inner import InnerConfig, InnerState
from eigen_reptile.methods import METHODS, MetaBatch
from eigen_reptile.nn import CrossEntropy, FlatModule, GeneralisedCrossEntropy, Network
from eigen_reptile.nn.compiler import Compiler
from eigen_reptile.tasks import Batches, Tasks
"""

NAMES = """
compiler, x = Compiler(required=True), torch.ones(2)
for _ in range(3):  # as each iteration asks again, with another function object
    assert torch.equal(compiler.compiled("double", lambda x: x + x, None)(x), 2 * x)
assert len(graphs) == 1
assert torch.equal(compiler.compiled("square", lambda x: x * x, None)(x), x)
assert torch.equal(compiler.compiled("double", lambda x: x + x, None)(x), 2 * x)
assert len(graphs) == 2
assert torch.equal(Compiler(required=True).compiled("double", lambda x: x + x, None)(x), 2 * x)
assert len(graphs) == 3  # another training compiles for itself
"""

GRADIENTS = """
plain = Network(FlatModule(lambda: torch.nn.Linear(3, 2)), CrossEntropy())
network = Network(plain.module, CrossEntropy(), compiler=Compiler(required=True))
theta = plain.module.init(0)[None, None]
for losses, traces in ([CrossEntropy()], 1), ([GeneralisedCrossEntropy(0.7), CrossEntropy()], 2):
    for loss in losses:
        for samples in (4, 6):
            x = torch.rand(1, 1, samples, 3, generator=torch.Generator().manual_seed(samples))
            y, weight = torch.arange(samples)[None, None] % 2, torch.ones(1, 1, samples)
            found = network.with_loss(loss).gradient(theta, x, y, weight)
            torch.testing.assert_close(found, plain.with_loss(loss).gradient(theta, x, y, weight))
    assert len(graphs) == traces, (len(graphs), traces)
network.with_loss(GeneralisedCrossEntropy(0.7)).gradient(theta, x, y, weight)  # as the next iteration asks for it
assert len(graphs) == 2
network.with_loss(GeneralisedCrossEntropy(0.5)).gradient(theta, x, y, weight)
assert len(graphs) == 3
"""

WRAPPED = """
network = Network(FlatModule(lambda: torch.nn.Linear(3, 2)), CrossEntropy(), compiler=Compiler(required=True))
generator = torch.Generator().manual_seed(0)
x, y = torch.randn(1, 2, 12, 3, generator=generator), torch.randint(2, (1, 2, 12), generator=generator)
clean, classes = torch.ones(1, 2, 12, dtype=torch.bool), torch.zeros(1, 2, 2, dtype=torch.int64)
tasks = Tasks(x, y, x[:, :, :0], y[:, :, :0], clean, classes)
method, inner = METHODS["eigen-reptile-ispl"], InnerConfig(steps=2, batch=1)
chosen = torch.arange(7).expand(1, 2, 7)[..., None]
batches = Batches(chosen, y[:, :, :7, None], torch.ones(1, 2, 7, 1), clean[:, :, :7, None])
theta = network.module.init(0)[None]
batch = MetaBatch(network, theta, InnerState.empty(theta), tasks, batches, inner, torch.tensor(0))
plain = batch._replace(network=Network(network.module, CrossEntropy()))
with torch.no_grad():
    for _ in range(2):
        torch.testing.assert_close(method.meta_update(batch).direction, method.meta_update(plain).direction)
assert len(graphs) == 2, "one for the gradient, one for the direction"
"""


CHUNKS = """
from eigen_reptile import direction
direction.CHUNK = 48
W = torch.randn(2, 4, 100, generator=torch.Generator().manual_seed(0), dtype=torch.float64).cumsum(1)
plain, _ = direction.main_direction_or_nan(W, length="net", fix_sign=True)
# Tracing is where it could fail; compiling for the processor is slow, and part of the tests of whole trainings.
trace = plain_compile(direction.main_direction_or_nan, fullgraph=True, backend="aot_eager")
compiled, _ = trace(W, length="net", fix_sign=True)
torch.testing.assert_close(compiled, plain)
"""


def test_what_is_traced_is_traced_once_and_directions_of_several_chunks_compile() -> None:
    """One process for all, because importing the compiler takes longer than tracing."""
    checks = (NAMES, GRADIENTS, WRAPPED, CHUNKS)
    subprocess.run([sys.executable, "-c", TRACED + "graphs.clear(); torch._dynamo.reset()\n".join(checks)], check=True)
