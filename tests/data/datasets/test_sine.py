"""Tasks of the sine data set are sine curves on a grid."""

import numpy as np
import pytest
import torch

from eigen_reptile.data import Sine, TaskShape, require_finite
from eigen_reptile.data.sampling import sample_tasks
from eigen_reptile.errors import ConfigError, DataError
from eigen_reptile.runtime.progress import no_progress
from eigen_reptile.runtime.rng import generator_at

SINE = Sine().load(no_progress).train


def rngs(seeds: range) -> list[np.random.Generator]:
    return [generator_at(seed, "tasks") for seed in seeds]


def shots(count: int) -> TaskShape:
    return TaskShape(way=1, shots=count, queries=1)


def test_sine_tasks_are_sine_curves_over_the_interval() -> None:
    tasks = sample_tasks(SINE, shots(50), 400, rngs(range(2)))
    x, y = tasks.query_x[..., 0].double(), tasks.query_y[..., 0].double()
    assert x.min() == -5.0
    assert x.max() == 5.0
    # A sin(x + b) = a sin x + c cos x, so least squares must leave no residual.
    design = torch.stack([x[0, 0].sin(), x[0, 0].cos()], dim=1)
    flat = y.reshape(-1, 50).T
    coefficients = torch.linalg.lstsq(design, flat).solution
    torch.testing.assert_close(design @ coefficients, flat, atol=1e-5, rtol=0)
    amplitude = coefficients.norm(dim=0)
    phase = torch.atan2(coefficients[1], coefficients[0]) % (2 * torch.pi)
    assert 0.1 <= amplitude.min() < 0.2
    assert 4.9 < amplitude.max() <= 5.0
    assert amplitude.mean().item() == pytest.approx(2.55, abs=0.2)
    assert phase.mean().item() == pytest.approx(torch.pi, abs=0.3)


def test_support_is_the_whole_grid_or_drawn_from_it() -> None:
    whole = sample_tasks(SINE, shots(50), 3, rngs(range(1)))
    assert torch.equal(whole.x, whole.query_x)
    assert torch.equal(whole.y, whole.query_y)
    few = sample_tasks(SINE, shots(10), 3, rngs(range(1)))
    for task in range(3):
        grid = dict(zip(few.query_x[0, task, :, 0].tolist(), few.query_y[0, task, :, 0].tolist(), strict=True))
        assert all(
            grid[x] == y for x, y in zip(few.x[0, task, :, 0].tolist(), few.y[0, task, :, 0].tolist(), strict=True)
        )


def test_regression_has_one_class_and_queries_on_the_whole_grid() -> None:
    assert SINE.n_classes == 1
    assert SINE.feasible_shape(TaskShape(1, 10, 3)) == TaskShape(1, 10, 50)
    with pytest.raises(DataError, match=r"`task\.way` must be 1, not 5"):
        SINE.feasible_shape(TaskShape(5, 10, 3))


def test_curves_without_end_have_no_epochs() -> None:
    with pytest.raises(DataError, match=r"`task\.epochs`"):
        require_finite(SINE)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"points": 0}, r"`data\.points` must be at least 1, not 0"),
        ({"low": 5.0}, r"`data\.low` must be below `data\.high`.*not 5\.0 and 5\.0"),
        ({"high": float("inf")}, "must be finite"),
        ({"min_amplitude": 6.0}, r"`data\.min_amplitude` <= `data\.max_amplitude`"),
    ],
)
def test_impossible_settings_are_rejected(settings: dict[str, float], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Sine(**settings)  # type: ignore[arg-type]
