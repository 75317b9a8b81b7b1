"""The figures of the report, drawn into PNG files."""

from eigen_reptile.report.figures.accuracy import (
    ExampleTask,
    plot_accuracy_over_inner_steps,
    plot_accuracy_over_noise,
    plot_example_task,
)
from eigen_reptile.report.figures.benchmarks import plot_scaling, plot_throughput
from eigen_reptile.report.figures.noise import plot_transition_matrix
from eigen_reptile.report.figures.theory import plot_study
from eigen_reptile.report.figures.training import (
    plot_accuracy_over_time,
    plot_fitted_curves,
    plot_learning_curves,
    plot_outer_step_sizes,
)

__all__ = [
    "ExampleTask",
    "plot_accuracy_over_inner_steps",
    "plot_accuracy_over_noise",
    "plot_accuracy_over_time",
    "plot_example_task",
    "plot_fitted_curves",
    "plot_learning_curves",
    "plot_outer_step_sizes",
    "plot_scaling",
    "plot_study",
    "plot_throughput",
    "plot_transition_matrix",
]
