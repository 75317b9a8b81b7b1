"""Methods that compare with the support: their answers and losses against slow loops, and their gradients."""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from eigen_reptile.config import MetaConfig, from_json, standard, to_json
from eigen_reptile.data import CifarFs, ImageBank
from eigen_reptile.experiment import run_experiment
from eigen_reptile.methods import METHODS, Domain, Ecm, Gnn, Iteration, Method, MixtFsl, Robust
from eigen_reptile.methods.gnn import networks
from eigen_reptile.models import Conv4
from eigen_reptile.progress import silent
from eigen_reptile.stage import prepare
from eigen_reptile.tasks import TaskConfig
from test_gradient_methods import SHOTS, WAY, gradient_of, iteration_of, meta_loss, pictures

SUPPORT, QUERIES, CLASSES, FEATURES = WAY * SHOTS, 9, 8, 3
GNN = Gnn(width=5, edge=4, grown=3)
METRIC: dict[str, Any] = {
    "gnn": GNN,
    "ecm": Ecm(),
    "ecm, all classes": Ecm(among="bank"),
    "mixtfsl": MixtFsl(components=2, temperature=0.5, margin=0.2),
}
every_method = pytest.mark.parametrize("method", METRIC.values(), ids=METRIC.keys())


def some_iteration(method: Method, tasks: int = 2) -> Iteration:
    return iteration_of(pictures(method, model=Conv4(FEATURES, head=False)), tasks)


def answers(method: Method, iteration: Iteration) -> Tensor:
    tasks = iteration.tasks
    return method.answers(iteration.learner, iteration.point, tasks, tasks.query_x)


def points(iteration: Iteration, task: int) -> tuple[np.ndarray, np.ndarray]:
    """Where support and queries of a task lie, as the network alone puts them."""
    tasks, network = iteration.tasks, iteration.theta[0, : iteration.learner.d]
    placed = iteration.learner.output(network, torch.cat([tasks.x[0, task], tasks.query_x[0, task]])).numpy()
    return placed[:SUPPORT], placed[SUPPORT:]


def numbers(iteration: Iteration, task: int) -> list[int]:
    """The numbers of the classes of all samples of a task."""
    tasks = iteration.tasks
    places = [*tasks.y[0, task].tolist(), *tasks.query_y[0, task].tolist()]
    return [int(tasks.classes[0, task, place]) for place in places]


def cross_entropy(scores: list[float], label: int) -> float:
    top = max(scores)
    return top + math.log(sum(math.exp(score - top) for score in scores)) - scores[label]


# Graph networks


def split(flat: Tensor, shapes: dict[str, torch.Size]) -> dict[str, np.ndarray]:
    pieces = flat.split([shape.numel() for shape in shapes.values()])
    return {name: piece.view(shape).numpy() for (name, shape), piece in zip(shapes.items(), pieces, strict=True)}


def normalised(x: np.ndarray, scale: np.ndarray, shift: np.ndarray) -> np.ndarray:
    """Batch-norm over all but the last axis."""
    axes = tuple(range(x.ndim - 1))
    result: np.ndarray = (x - x.mean(axes)) / np.sqrt(x.var(axes) + 1e-5) * scale + shift
    return result


def leaky(x: np.ndarray) -> np.ndarray:
    return np.where(x > 0, x, 0.01 * x)


def slow_edges(x: np.ndarray, weights: dict[str, np.ndarray], layer: int) -> np.ndarray:
    """How much each node of each graph takes from each other."""
    graphs, n, size = x.shape
    values = np.zeros((graphs, n, n, size))
    for graph, i, j in np.ndindex(graphs, n, n):
        values[graph, i, j] = abs(x[graph, i] - x[graph, j])
    for step in range(4):
        name = f"edges.{layer}.score.{step}"
        values = values @ weights[f"{name}.0.weight"].T
        values = leaky(normalised(values, weights[f"{name}.1.weight"], weights[f"{name}.1.bias"]))
    scores = values @ weights[f"edges.{layer}.score.4.weight"][0]
    adjacency = np.zeros((graphs, n, n))
    for graph, i in np.ndindex(graphs, n):
        others = [j for j in range(n) if j != i]
        e = np.exp([scores[graph, i, j] for j in others])
        adjacency[graph, i, others] = e / e.sum()
    return adjacency


def test_graph_networks_against_slow_loops() -> None:
    iteration = some_iteration(GNN)
    said = answers(GNN, iteration)
    mapping, graph = networks(GNN, FEATURES, WAY)
    extra = iteration.theta[0, iteration.learner.d :]
    assert len(extra) == mapping.d + graph.d
    first, weights = split(extra[: mapping.d], mapping.shapes), split(extra[mapping.d :], graph.shapes)
    for task in range(2):
        support, queries = points(iteration, task)
        mapped = np.concatenate([support, queries]) @ first["0.weight"].T
        mapped = normalised(mapped, first["1.weight"], first["1.bias"])
        x = np.zeros((QUERIES, 1 + SUPPORT, 5 + WAY))
        for query in range(QUERIES):
            x[query, 0, :5] = mapped[SUPPORT + query]
            for member in range(SUPPORT):
                x[query, 1 + member, :5] = mapped[member]
                x[query, 1 + member, 5 + int(iteration.tasks.y[0, task, member])] = 1
        for layer in range(3):
            adjacency = slow_edges(x, weights, layer)
            taken = np.zeros_like(x)
            for query, i, j in np.ndindex(adjacency.shape):
                taken[query, i] += adjacency[query, i, j] * x[query, j]
            both = np.concatenate([x, taken], axis=2)
            if layer < 2:
                name = f"nodes.{layer}"
                new = both @ weights[f"{name}.0.weight"].T
                new = leaky(normalised(new, weights[f"{name}.1.weight"], weights[f"{name}.1.bias"]))
                x = np.concatenate([x, new], axis=2)
        expected = both[:, 0] @ weights["last.weight"].T + weights["last.bias"]
        np.testing.assert_allclose(said[0, task].numpy(), expected, rtol=1e-8, atol=1e-10)


def test_the_published_graph_network_is_the_default() -> None:
    mapping, graph = networks(Gnn(), 6400, 5)
    assert mapping.d == 6400 * 128 + 2 * 128
    sizes = [133, 181, 229]
    edges = sum(size * 192 + 192 * 192 + 192 * 96 + 96 * 96 + 2 * (192 + 192 + 96 + 96) + 96 for size in sizes)
    nodes = sum(2 * size * 48 + 2 * 48 for size in sizes[:2])
    assert graph.d == edges + nodes + 2 * 229 * 5 + 5


def test_the_order_of_the_support_does_not_matter_to_a_graph() -> None:
    iteration = some_iteration(GNN)
    order = [3, 0, 5, 1, 4, 2]
    tasks = iteration.tasks
    turned = iteration._replace(tasks=tasks._replace(x=tasks.x[:, :, order], y=tasks.y[:, :, order]))
    torch.testing.assert_close(answers(GNN, iteration), answers(GNN, turned), rtol=1e-9, atol=1e-10)


# ECM


@pytest.mark.parametrize("among", ["task", "bank"])
def test_the_loss_of_ecm_against_a_slow_loop(among: Any) -> None:
    method = Ecm(among=among)
    iteration = some_iteration(method)
    centres = iteration.theta[0, iteration.learner.d :].view(CLASSES, FEATURES).numpy()
    found = method.losses(iteration)
    for task in range(2):
        choice = iteration.tasks.classes[0, task].tolist() if among == "task" else list(range(CLASSES))
        placed = np.concatenate(points(iteration, task))
        losses = [
            cross_entropy([-float(((point - centres[k]) ** 2).sum()) for k in choice], choice.index(number))
            for point, number in zip(placed, numbers(iteration, task), strict=True)
        ]
        assert float(found[0, task]) == pytest.approx(float(np.mean(losses)))


def generalised_cross_entropy(scores: Tensor, y: Tensor) -> Tensor:
    p = scores.softmax(1)[torch.arange(len(y)), y]
    return ((1 - p**0.4) / 0.4).mean()


@pytest.mark.parametrize(
    ("wrap", "loss"),
    [(lambda ecm: ecm, torch.nn.functional.cross_entropy), (partial(Robust, q=0.4), generalised_cross_entropy)],
    ids=["plain", "robust"],
)
def test_vectors_of_a_new_task_go_down_the_gradient(
    wrap: Callable[[Method], Method], loss: Callable[[Tensor, Tensor], Tensor]
) -> None:
    method = wrap(Ecm(steps=3, rate=0.7))
    iteration = some_iteration(method)
    with torch.no_grad():
        said = answers(method, iteration)
    for task in range(2):
        support, queries = (torch.from_numpy(part) for part in points(iteration, task))
        y = iteration.tasks.y[0, task]
        centres = torch.stack([support[y == way].mean(0) for way in range(WAY)])
        for _ in range(3):
            centres.requires_grad_()
            distances = torch.stack([((support - centre) ** 2).sum(1) for centre in centres], dim=1)
            (slope,) = torch.autograd.grad(loss(-distances, y), centres)
            centres = (centres - 0.7 * slope).detach()
        expected = -torch.stack([((queries - centre) ** 2).sum(1) for centre in centres], dim=1)
        torch.testing.assert_close(said[0, task], expected)


def test_without_steps_ecm_answers_as_prototypes_do() -> None:
    iteration = some_iteration(Ecm())
    network = iteration._replace(theta=iteration.theta[:, : iteration.learner.d])
    assert torch.equal(answers(Ecm(steps=0), iteration), answers(METHODS["prototypical"], network))


def test_only_the_vectors_of_the_classes_at_hand_move() -> None:
    iteration = some_iteration(Ecm(), tasks=1)
    moved = gradient_of(Ecm(), iteration)[iteration.learner.d :].view(CLASSES, FEATURES).abs().sum(1) > 0
    assert set(moved.nonzero().flatten().tolist()) == set(iteration.tasks.classes.flatten().tolist())


# MixtFSL


def unit(x: np.ndarray) -> np.ndarray:
    """Vectors of length one; what lies in the origin stays there."""
    result: np.ndarray = x / np.maximum(np.linalg.norm(x, axis=-1, keepdims=True), 1e-12)
    return result


def slow_mixture(method: MixtFsl, iteration: Iteration, task: int) -> tuple[float, float, list[int]]:
    """The losses among classes and among components, and the component of each sample."""
    extra = iteration.theta[0, iteration.learner.d :].view(CLASSES, method.components, FEATURES).numpy()
    components, placed = unit(extra), unit(np.concatenate(points(iteration, task)))
    labels = numbers(iteration, task)

    def loss(point: np.ndarray, against: list[np.ndarray], own: int) -> float:
        cosines = [float(point @ one) for one in against]
        if cosines[own] > 0:
            cosines[own] = math.cos(math.acos(cosines[own]) + method.margin)
        return cross_entropy([cosine / method.temperature for cosine in cosines], own)

    nearest = [
        (label, max(range(method.components), key=lambda one: float(point @ components[label, one])))
        for point, label in zip(placed, labels, strict=True)
    ]
    present = sorted(set(nearest))
    centroids = [components[label].mean(0) for label in range(CLASSES)]
    samples = list(zip(placed, labels, nearest, strict=True))
    classes = [loss(point, centroids, label) for point, label, _ in samples]
    parts = [loss(point, [components[one] for one in present], present.index(own)) for point, _, own in samples]
    places = [label * method.components + one for label, one in nearest]
    return float(np.mean(classes)), float(np.mean(parts)), places


@pytest.mark.parametrize(("temperature", "margin"), [(0.025, 0.01), (0.5, 0.4)])
def test_the_loss_of_mixtfsl_against_a_slow_loop(temperature: float, margin: float) -> None:
    method = MixtFsl(3, temperature, margin)
    iteration = some_iteration(method)
    found = method.losses(iteration)
    for task in range(2):
        classes, parts, _ = slow_mixture(method, iteration, task)
        assert float(found[0, task]) == pytest.approx(classes + parts)


def test_each_sample_goes_to_the_nearest_component_of_its_class() -> None:
    method = MixtFsl(3)
    iteration = some_iteration(method)
    components = unit(iteration.theta[0, iteration.learner.d :].view(-1, FEATURES).numpy())
    chosen = set()
    for task in range(2):
        cosines = unit(np.concatenate(points(iteration, task))) @ components.T
        labels = torch.tensor(numbers(iteration, task))[None, None]
        found = method.nearest(torch.from_numpy(cosines)[None, None], labels)[0, 0].tolist()
        assert found == slow_mixture(method, iteration, task)[2]
        chosen |= {one % 3 for one in found}
    assert len(chosen) > 1


def test_components_move_only_by_their_own_loss() -> None:
    """The mean of a class's components draws samples, but they do not draw it."""
    method = METRIC["mixtfsl"]
    iteration = some_iteration(method, tasks=1)
    gradient = gradient_of(method, iteration)
    along = torch.randn(gradient.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    along[: iteration.learner.d] = 0
    high, low = (slow_mixture(method, iteration._replace(theta=iteration.theta + h * along), 0) for h in (1e-6, -1e-6))
    assert high[2] == low[2]
    assert float(gradient @ along) == pytest.approx((high[1] - low[1]) / 2e-6, rel=1e-5)


def test_a_sample_on_its_component_has_a_gradient() -> None:
    cosines = torch.tensor([[[[1.0, -1.0, 0.3]]]], requires_grad=True)
    MixtFsl().scores(cosines, torch.tensor([[[0]]])).sum().backward()
    assert cosines.grad is not None
    assert cosines.grad.isfinite().all()


def test_answers_of_mixtfsl_are_cosines_with_the_means() -> None:
    iteration = some_iteration(MixtFsl())
    said = answers(MixtFsl(), iteration)
    for task in range(2):
        support, queries = points(iteration, task)
        y = iteration.tasks.y[0, task].numpy()
        for way in range(WAY):
            expected = unit(queries) @ unit(support[y == way].mean(0))
            np.testing.assert_allclose(said[0, task, :, way].numpy(), expected, rtol=1e-10)


# All of them


@every_method
def test_gradients_against_finite_differences(method: Any) -> None:
    iteration = some_iteration(method)
    gradient = gradient_of(method, iteration)
    generator = torch.Generator().manual_seed(0)
    for _ in range(4):
        along = torch.randn(gradient.shape, generator=generator, dtype=torch.float64)
        if isinstance(method, MixtFsl):  # a part of the loss takes the components for constants
            along[iteration.learner.d :] = 0
        along /= along.norm()
        high, low = (meta_loss(method, iteration._replace(theta=iteration.theta + h * along)) for h in (1e-6, -1e-6))
        assert float(gradient @ along) == pytest.approx((high - low) / 2e-6, rel=1e-4, abs=1e-7)


@every_method
def test_the_start_is_the_seeds_and_no_global_draw_is_made(method: Any) -> None:
    stage = prepare(pictures(method), silent, "cpu")
    state = torch.get_rng_state()
    first, again, other = (method.init(stage.learner, seed, stage.domain) for seed in (0, 0, 1))
    iteration = some_iteration(method)
    update = gradient_of(method, iteration)
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(first, again)
    d = stage.learner.d
    assert torch.equal(first[:d], stage.learner.init(0))
    assert not torch.equal(first[d:], other[d:])
    assert torch.equal(update, gradient_of(method, iteration))


@every_method
def test_a_class_without_support_leaves_everything_finite(method: Any) -> None:
    iteration = some_iteration(method)
    tasks = iteration.tasks
    emptied = iteration._replace(tasks=tasks._replace(y=tasks.y.clamp(max=WAY - 2)))
    assert answers(method, emptied).isfinite().all()
    assert gradient_of(method, emptied).isfinite().all()


@every_method
def test_a_network_with_a_head_will_do(method: Any) -> None:
    iteration = iteration_of(pictures(method), tasks=1)
    assert answers(method, iteration).shape == (1, 1, QUERIES, WAY)
    assert gradient_of(method, iteration).isfinite().all()


@every_method
def test_a_robust_loss_will_do(method: Any) -> None:
    iteration = some_iteration(method, tasks=1)
    robust = gradient_of(Robust(method), iteration)
    assert robust.isfinite().all()
    assert not torch.allclose(robust, gradient_of(method, iteration))


@pytest.mark.parametrize("name", ["gnn", "ecm", "mixtfsl"])
def test_standard_settings(name: str) -> None:
    exp = standard(CifarFs(), METHODS[name])
    assert exp.model == Conv4(64, "valid", head=False)
    assert (exp.task.shots, exp.meta.lr, exp.meta.optimizer) == (1, (1e-3,), "adam")
    if name == "mixtfsl":
        assert exp.task.epochs
        assert exp.meta.batch * exp.task.samples == 200
    else:
        assert (exp.task.queries, exp.task.epochs) == (15, False)
    assert exp.method.classifies
    assert from_json(to_json(exp)) == exp


def test_the_domain_is_that_of_the_training_classes() -> None:
    stage = prepare(pictures(Ecm()), silent, "cpu")
    assert isinstance(stage.banks.train, ImageBank)
    assert stage.domain == Domain((3, 8, 9), WAY, CLASSES)
    assert stage.learner.features(stage.domain.shape) == WAY
    assert len(Ecm().extra(stage.learner, 0, stage.domain)) == CLASSES * WAY
    assert len(MixtFsl(4).extra(stage.learner, 0, stage.domain)) == CLASSES * 4 * WAY


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        (Gnn, {"width": 0}),
        (Gnn, {"layers": -1}),
        (Ecm, {"steps": -1}),
        (Ecm, {"rate": 0.0}),
        (MixtFsl, {"components": 0}),
        (MixtFsl, {"temperature": 0.0}),
        (MixtFsl, {"margin": 2.0}),
    ],
)
def test_settings_that_make_no_sense_are_refused(kind: Any, settings: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(settings))):
        kind(**settings)


@pytest.mark.parametrize("name", ["prototypical", "ecm", "mixtfsl"])
def test_tasks_of_more_classes_than_in_the_test_will_do(name: str, tmp_path: Path) -> None:
    exp = pictures(METHODS[name], model=Conv4(FEATURES, head=False), task=TaskConfig(way=6, shots=1, queries=2))
    exp = replace(exp, meta=MetaConfig(steps=2, batch=1), evaluation=replace(exp.evaluation, way=3, every=2))
    stage = prepare(exp, silent, "cpu")
    assert (stage.training.way, stage.validation.way, stage.tests[0].way) == (6, 3, 3)
    (test,) = run_experiment(exp, tmp_path)["test"]
    right = 3 * exp.evaluation.queries * np.array(test["per_task"])
    np.testing.assert_allclose(right, right.round(), atol=1e-3)  # out of the queries of three classes


@pytest.mark.parametrize("method", [METHODS["gnn"], METHODS["maml"], METHODS["reptile"]], ids=str)
def test_methods_with_an_answer_for_each_class_refuse_that(method: Method) -> None:
    exp = pictures(method, model=Conv4(FEATURES, head=False))
    with pytest.raises(ValueError, match="as many classes as it was trained on, 3"):
        replace(exp, evaluation=replace(exp.evaluation, way=2))
