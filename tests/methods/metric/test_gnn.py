"""Graph networks against slow loops."""

import numpy as np
import pytest
import torch
from torch import Tensor

from eigen_reptile.methods import Gnn
from eigen_reptile.methods.metric.gnn import graph_networks
from embeddings import FEATURES, QUERIES, SMALL_GNN, SUPPORT, features, headless_batch
from meta_batches import WAY, predictions


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
    """The edge weights between the nodes of each graph."""
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


def slow_graph(x: np.ndarray, weights: dict[str, np.ndarray]) -> np.ndarray:
    """The logits of the query of each graph."""
    for layer in range(3):
        adjacency = slow_edges(x, weights, layer)
        gathered = np.zeros_like(x)
        for graph, i, j in np.ndindex(adjacency.shape):
            gathered[graph, i] += adjacency[graph, i, j] * x[graph, j]
        both = np.concatenate([x, gathered], axis=2)
        if layer < 2:
            name = f"nodes.{layer}"
            new = both @ weights[f"{name}.0.weight"].T
            new = leaky(normalised(new, weights[f"{name}.1.weight"], weights[f"{name}.1.bias"]))
            x = np.concatenate([x, new], axis=2)
    logits: np.ndarray = both[:, 0] @ weights["last.weight"].T + weights["last.bias"]
    return logits


def test_predictions_against_slow_loops() -> None:
    batch = headless_batch(SMALL_GNN)
    found = predictions(SMALL_GNN, batch)
    mapping, graph = graph_networks(SMALL_GNN, FEATURES, WAY)
    extra = batch.theta[0, batch.network.d :]
    assert len(extra) == mapping.d + graph.d
    first = split(extra[: mapping.d], mapping.module.shapes)
    weights = split(extra[mapping.d :], graph.module.shapes)
    for task in range(2):
        mapped = np.concatenate(features(batch, task)) @ first["0.weight"].T
        mapped = normalised(mapped, first["1.weight"], first["1.bias"])
        x = np.zeros((QUERIES, 1 + SUPPORT, 5 + WAY))
        for query in range(QUERIES):
            x[query, 0, :5] = mapped[SUPPORT + query]
            for member in range(SUPPORT):
                x[query, 1 + member, :5] = mapped[member]
                x[query, 1 + member, 5 + int(batch.tasks.y[0, task, member])] = 1
        np.testing.assert_allclose(found[0, task].numpy(), slow_graph(x, weights), rtol=1e-8, atol=1e-10)


def test_the_published_graph_network_is_the_default() -> None:
    mapping, graph = graph_networks(Gnn(), 6400, 5)
    assert mapping.d == 6400 * 128 + 2 * 128
    sizes = [133, 181, 229]
    edges = sum(size * 192 + 192 * 192 + 192 * 96 + 96 * 96 + 2 * (192 + 192 + 96 + 96) + 96 for size in sizes)
    nodes = sum(2 * size * 48 + 2 * 48 for size in sizes[:2])
    assert graph.d == edges + nodes + 2 * 229 * 5 + 5


def test_the_order_of_the_support_does_not_matter() -> None:
    batch = headless_batch(SMALL_GNN)
    order = [3, 0, 5, 1, 4, 2]
    tasks = batch.tasks
    reordered = batch._replace(tasks=tasks._replace(x=tasks.x[:, :, order], y=tasks.y[:, :, order]))
    found, expected = (predictions(SMALL_GNN, one) for one in (reordered, batch))
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-10)


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(ValueError, match=r"`method\.width`"):
        Gnn(width=0)
    with pytest.raises(ValueError, match=r"`method\.layers`"):
        Gnn(layers=-1)
