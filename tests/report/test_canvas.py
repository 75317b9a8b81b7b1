"""What all figures share."""

from pathlib import Path

import pytest

from eigen_reptile.errors import RunError
from eigen_reptile.report.figures.canvas import new_figure, save_figure


def test_numbers_that_cannot_be_drawn_are_reported_in_one_line(tmp_path: Path) -> None:
    figure = new_figure(3.0, 2.0)
    figure.subplots().plot([0.0, 1.0], [-1.7e308, 1.0])
    with pytest.raises(RunError, match=r"cannot draw huge\.png, because its numbers are too large"):
        save_figure(figure, tmp_path / "huge.png")
    assert not list(tmp_path.iterdir())
