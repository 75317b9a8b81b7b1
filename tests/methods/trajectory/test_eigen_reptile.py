"""Eigen-Reptile against the formulas of the paper and of its authors' code."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from eigen_reptile.methods import EigenReptile, Reptile
from meta_batches import mean_direction, random_walks


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_on_a_straight_trajectory_eigen_reptile_is_reptile(dtype: torch.dtype) -> None:
    start, way = random_walks(1, 1, 1, 2, 300)[0, 0].to(dtype)
    at = torch.tensor([0.0, 0.1, 0.35, 0.4, 0.8, 1.0], dtype=dtype)
    W = (start + at[:, None] * way)[None, None]
    eigen = EigenReptile(include_start=True, combine="mean_of_products", length="net")
    tolerance = 1e-12 if dtype == torch.float64 else 1e-5
    for method in (eigen, replace(eigen, length="path")):
        ours = mean_direction(method, W)
        torch.testing.assert_close(ours, mean_direction(Reptile(), W), rtol=tolerance, atol=tolerance)


def authors_update(W: np.ndarray) -> np.ndarray:
    """What the authors' code computes for one meta-batch (tasks, rows, d): Gram matrix, path length, two means."""
    lengths, directions = [], []
    for rows in W:
        X = (rows - rows.mean(0)).T
        values, vectors = np.linalg.eig(X.T @ X)
        first = int(np.argmax(values.real))
        e = X @ vectors[:, first].real
        e = e / np.linalg.norm(e)
        lengths.append(sum(abs((rows[i + 1] - rows[i]) @ e) for i in range(len(rows) - 1)))
        half = len(rows) // 2
        towards = (rows[half:] - rows[:half]).mean(0)
        e = e * (values[first] / values.sum()).real
        directions.append(e if e @ towards > 0 else -e)
    update: np.ndarray = np.mean(lengths) * np.mean(directions, axis=0)
    return update


def test_the_authors_form_is_the_authors_formula() -> None:
    W = random_walks(2)
    ours = mean_direction(EigenReptile.authors(), W)
    for replica in range(2):
        np.testing.assert_allclose(ours[replica].numpy(), authors_update(W[replica].numpy()), rtol=1e-9)


def test_the_papers_form_excludes_the_start_and_uses_the_net_length() -> None:
    W = random_walks(3, replicas=1, tasks=1)
    points = W[0, 0, 1:].numpy()
    X = points - points.mean(0)
    values, vectors = np.linalg.eigh(X.T @ X)
    e = vectors[:, -1] * np.sign(vectors[:, -1] @ (points[-3:].mean(0) - points[:3].mean(0)))
    expected = (points[-1] - points[0]) @ e * values[-1] / values.sum() * e
    np.testing.assert_allclose(mean_direction(EigenReptile.paper(), W)[0].numpy(), expected, rtol=1e-9)


def test_the_two_ways_to_combine_tasks() -> None:
    W = random_walks(4, replicas=1)
    alone = [mean_direction(EigenReptile(weighted=False), W[:, task : task + 1])[0] for task in range(3)]
    mean_of_products = mean_direction(EigenReptile(weighted=False, combine="mean_of_products"), W)[0]
    torch.testing.assert_close(mean_of_products, torch.stack(alone).mean(0))
    lengths = torch.stack([single.norm() for single in alone])
    product_of_means = mean_direction(EigenReptile(weighted=False), W)[0]
    units = torch.stack([single / single.norm() for single in alone])
    torch.testing.assert_close(product_of_means, lengths.mean() * units.mean(0))


def test_the_weight_is_the_explained_variance_ratio() -> None:
    W = random_walks(5, tasks=1)
    ratio = EigenReptile.authors().direction_of(W).stats["explained_variance_ratio"]
    plain = mean_direction(replace(EigenReptile.authors(), weighted=False), W)
    torch.testing.assert_close(mean_direction(EigenReptile.authors(), W), ratio * plain)


def test_without_the_sign_fix_only_the_sign_can_differ() -> None:
    W = random_walks(7, replicas=20, tasks=1)
    free, fixed = (mean_direction(replace(EigenReptile.authors(), fix_sign=fix), W) for fix in (False, True))
    torch.testing.assert_close(free, (free * fixed).sum(-1, keepdim=True).sign() * fixed)
