"""Evaluation on images against plain loops over tasks, and its fixed lists of tasks."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from doubles import WrappedBank
from eigen_reptile.data import Bank, Samples, TaskShape
from eigen_reptile.data.sampling import sample_tasks
from eigen_reptile.inner import InnerConfig, InnerState
from eigen_reptile.methods import METHODS, Reptile
from eigen_reptile.nn import Conv4, CrossEntropy, FlatModule, Network
from eigen_reptile.runtime.progress import no_progress
from eigen_reptile.runtime.rng import Purpose, generator_at
from eigen_reptile.tasks import Tasks, draw_batches
from eigen_reptile.training import evaluate as module
from eigen_reptile.training.evaluate import EvalConfig, Initialisation, Scores, evaluate
from eigen_reptile.training.illustrate import predict_example
from eigen_reptile.training.presets import preset
from eigen_reptile.training.query_batches import MODES, Mode
from eigen_reptile.training.setup import set_up
from eigen_reptile.training.state import TrainState
from patterns import Patterns

IGNORE = no_progress("", 0)


class Exact(WrappedBank):
    """The images of another bank as float64, so that rounding does not blur the comparison."""

    def __init__(self, bank: Bank) -> None:
        super().__init__(bank)
        self.drawn = 0

    def draw_tasks(self, count: int, task: TaskShape, rngs: Sequence[np.random.Generator]) -> Samples:
        self.drawn += 1
        samples = self.bank.draw_tasks(count, task, rngs)
        return samples._replace(x=samples.x / 255, query_x=samples.query_x / 255)


IMAGES = EvalConfig(inner_steps=(2, 6), batch=5, seed=3)
TASK = TaskShape(way=3, shots=2, queries=3)
TASKS = 5
REPLICAS = 2


def build() -> nn.Module:
    return Conv4(filters=4).build((3, 8, 9), 3).double()


NETWORK = Network(FlatModule(build), CrossEntropy())


def image_bank() -> Exact:
    return Exact(Patterns().load(no_progress).test)


def image_initialisation(carry: Literal["fresh", "shared"]) -> Initialisation:
    theta = torch.stack([NETWORK.module.init(seed) for seed in range(REPLICAS)])
    inner_state = InnerState(theta.square() * 0.01, torch.tensor([7.0, 20.0], dtype=torch.float64))
    return Initialisation(theta, inner_state, InnerConfig(lr=0.02, optimizer="adam", carry=carry), Reptile())


def accuracy(
    initialisation: Initialisation,
    count: int = TASKS,
    modes: Sequence[Mode] = MODES,
    bank: Exact | None = None,
    purpose: Purpose = "test",
) -> Scores:
    return evaluate(NETWORK, bank or image_bank(), initialisation, IMAGES, purpose, TASK, range(count), modes, IGNORE)


def adapted_slowly(initialisation: Initialisation, replica: int, tasks: Tasks, chosen: Tensor) -> nn.Module:
    """One network, one task, one step after the other: TensorFlow's Adam without momentum, written out."""
    net = build()
    nn.utils.vector_to_parameters(initialisation.theta[replica].clone(), net.parameters())
    fresh = initialisation.inner.carry == "fresh"
    square = torch.zeros_like(initialisation.theta[replica]) if fresh else initialisation.inner_state.square[replica]
    done = 0 if fresh else int(initialisation.inner_state.steps[replica])
    for batch in chosen:
        net.zero_grad()
        nn.functional.cross_entropy(net(tasks.x[0, 0, batch]), tasks.y[0, 0, batch]).backward()
        gradient = torch.cat([parameter.grad.flatten() for parameter in net.parameters() if parameter.grad is not None])
        done += 1
        square = 0.999 * square + 0.001 * gradient**2
        move = 0.02 * (1 - 0.999**done) ** 0.5 * gradient / (square**0.5 + 1e-8)
        theta = nn.utils.parameters_to_vector(net.parameters()).detach() - move
        nn.utils.vector_to_parameters(theta, net.parameters())
    return net


def predicted_slowly(net: nn.Module, tasks: Tasks, mode: Mode) -> list[int]:
    queries = tasks.query_x[0, 0]
    if mode == "transductive":
        return [int(label) for label in net(queries).argmax(1)]
    return [int(net(torch.cat([tasks.x[0, 0], query[None]]))[-1].argmax()) for query in queries]


def accuracy_slowly(initialisation: Initialisation, replica: int, number: int, mode: Mode) -> float:
    rng = generator_at(IMAGES.seed, "test", number)
    tasks = sample_tasks(image_bank(), TASK, 1, [rng], dtype=torch.float64)
    chosen = draw_batches(tasks, 6, 5, [rng]).chosen[0, 0]
    net = adapted_slowly(initialisation, replica, tasks, chosen)
    pairs = zip(predicted_slowly(net, tasks, mode), tasks.query_y[0, 0].tolist(), strict=True)
    return float(np.mean([predicted == true for predicted, true in pairs]))


@pytest.mark.parametrize("carry", ["fresh", "shared"])
def test_accuracy_is_that_of_a_plain_loop(carry: Literal["fresh", "shared"]) -> None:
    initialisation = image_initialisation(carry)
    scores = accuracy(initialisation)
    assert scores.columns == ("inductive", "transductive")
    expected = np.array(
        [
            [[accuracy_slowly(initialisation, replica, number, mode) for mode in MODES] for number in range(TASKS)]
            for replica in range(REPLICAS)
        ]
    )
    np.testing.assert_allclose(scores.values, expected, atol=1e-6)
    np.testing.assert_allclose(scores.per_replica(), expected.mean(1), atol=1e-6)
    assert (expected[..., 0] != expected[..., 1]).any()  # otherwise this test could not tell the modes apart


@pytest.mark.parametrize("name", [name for name, method in METHODS.items() if method.requirements.classification_only])
def test_an_inductive_prediction_sees_one_query_and_the_support(name: str) -> None:
    """Whatever a method does, no batch of an inductive evaluation holds more than the support and one query."""
    exp = preset(Patterns(images=20, test_images=20, side=16), METHODS[name], 4)
    setup = set_up(exp, no_progress, "cpu")
    sizes: list[int] = []

    def build_counting() -> nn.Module:
        module = exp.model.build(setup.banks.train.shape, 5)
        module.register_forward_pre_hook(lambda _, inputs: sizes.append(len(inputs[0])))
        return module

    network = Network(FlatModule(build_counting), CrossEntropy())
    state = TrainState.fresh(setup)
    initialisation = Initialisation(state.theta, state.inner_state, exp.inner, exp.method)
    config = replace(exp.evaluation, inner_steps=(1,))
    evaluate(network, setup.banks.test, initialisation, config, "test", TaskShape(5, 2, 3), [0], ["inductive"], IGNORE)
    assert sizes[-15:] == [5 * 2 + 1] * 15


def test_the_state_of_adam_matters_only_if_it_is_shared() -> None:
    fresh, shared = image_initialisation("fresh"), image_initialisation("shared")
    emptied = shared._replace(inner_state=InnerState.empty(shared.theta))
    assert np.array_equal(accuracy(fresh).values, accuracy(emptied).values)
    assert not np.array_equal(accuracy(fresh).values, accuracy(shared).values)


def test_the_scores_in_one_mode_do_not_depend_on_the_other() -> None:
    both = accuracy(image_initialisation("shared"))
    for number, mode in enumerate(MODES):
        alone = accuracy(image_initialisation("shared"), modes=[mode])
        assert alone.columns == (mode,)
        assert np.array_equal(alone.values[..., 0], both.values[..., number])


def test_a_longer_list_of_image_tasks_begins_with_the_shorter_one() -> None:
    initialisation = image_initialisation("shared")
    assert np.array_equal(accuracy(initialisation, 12).values[:, :5], accuracy(initialisation, 5).values)
    assert not np.array_equal(
        accuracy(initialisation, 12, purpose="validation").values, accuracy(initialisation, 12).values
    )


def test_the_memory_bound_determines_the_chunks_but_not_the_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    initialisation, bank = image_initialisation("shared"), image_bank()
    at_once = accuracy(initialisation)
    monkeypatch.setattr(module, "BYTES_AT_ONCE", 1)
    reported: list[int] = []

    def report(done: int, metrics: Mapping[str, float]) -> None:
        reported.append(done)

    found = evaluate(NETWORK, bank, initialisation, IMAGES, "test", TASK, range(TASKS), MODES, report)
    assert np.array_equal(found.values, at_once.values)
    assert bank.drawn == TASKS
    assert reported == list(range(1, TASKS + 1))


def test_a_batch_is_never_larger_than_the_support() -> None:
    """One shot of three classes is a batch of three, not of seven with repetitions; None always takes the support."""
    initialisation, one_shot = image_initialisation("shared"), TASK._replace(shots=1)
    found = [
        evaluate(
            NETWORK,
            image_bank(),
            initialisation,
            replace(IMAGES, batch=batch),
            "test",
            one_shot,
            range(TASKS),
            MODES,
            IGNORE,
        ).values
        for batch in (2, 3, 7, None)
    ]
    assert np.array_equal(found[1], found[2])
    assert np.array_equal(found[1], found[3])
    assert not np.array_equal(found[0], found[1])


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
def test_a_task_without_finite_predictions_fails_and_is_not_assigned_to_the_first_class(value: float) -> None:
    whole = image_initialisation("fresh")
    theta = whole.theta.clone()
    theta[1, -1] = value  # the bias of the last class
    broken = whole._replace(theta=theta)
    for mode in MODES:
        found, expected = accuracy(broken, modes=[mode]), accuracy(whole, modes=[mode])
        assert np.array_equal(found.values[0], expected.values[0])
        assert np.isnan(found.values[1]).all()
        assert np.isnan(found.per_replica()[1]).all()
    _, predicted = predict_example(NETWORK, image_bank(), broken, IMAGES, TASK)
    assert predicted[1].tolist() == [-1] * 9
    assert (predicted[0] >= 0).all()


def test_a_failed_task_counts_as_wrong_unless_all_failed() -> None:
    values = np.array([[1.0, np.nan, 0.5, 0.5], [np.nan] * 4, [0.25, 0.75, 0.5, 0.5]])[:, :, None]
    np.testing.assert_array_equal(Scores(("transductive",), values).per_replica()[:, 0], [0.5, np.nan, 0.5])
    np.testing.assert_array_equal(Scores(("3 steps",), values).per_replica()[:, 0], [np.nan, np.nan, 0.5])


def test_the_example_is_a_task_with_the_predictions_of_each_replica() -> None:
    initialisation = image_initialisation("shared")
    task, predicted = predict_example(NETWORK, image_bank(), initialisation, IMAGES, TASK)
    assert task.x.shape == (1, 1, 6, 3, 8, 9)
    rng = generator_at(IMAGES.seed, "snapshot", 0)
    tasks = sample_tasks(image_bank(), TASK, 1, [rng], dtype=torch.float64)
    chosen = draw_batches(tasks, 6, 5, [rng]).chosen[0, 0]
    assert all(torch.equal(part, own) for part, own in zip(task, tasks, strict=True))
    for replica in range(REPLICAS):
        net = adapted_slowly(initialisation, replica, tasks, chosen)
        assert predicted[replica].tolist() == predicted_slowly(net, tasks, "transductive")
