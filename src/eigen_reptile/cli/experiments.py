"""Commands that train and evaluate: `train`, `eval`, `run` and `quickstart`."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from eigen_reptile.cli.arguments import (
    UsageError,
    asks_for_help,
    check_positive,
    parse,
    take_name,
    unknown_name_message,
)
from eigen_reptile.cli.catalogue import STUDIES
from eigen_reptile.cli.evaluate_again import OF_TRAINING, check_only_evaluation_differs
from eigen_reptile.cli.execute import execute
from eigen_reptile.cli.options import (
    EvalOptions,
    Protocol,
    QuickstartOptions,
    RunOptions,
    StudyOptions,
    TrainOptions,
    Work,
)
from eigen_reptile.cli.output import logging_to_stderr, progress_bars, show_results
from eigen_reptile.data import DATASETS
from eigen_reptile.errors import ConfigError, DataError, RunError
from eigen_reptile.methods import METHODS, Method
from eigen_reptile.noise import NoiseConfig
from eigen_reptile.recipes import RECIPES, Recipe
from eigen_reptile.recipes.study import run_study
from eigen_reptile.runtime.jobs import FAILURES, Outcome
from eigen_reptile.runtime.progress import phase
from eigen_reptile.runtime.text import printable
from eigen_reptile.training.config import Experiment, MetaConfig
from eigen_reptile.training.evaluate import EvalConfig
from eigen_reptile.training.experiment import ExperimentJob, evaluate_run, run
from eigen_reptile.training.presets import preset
from eigen_reptile.training.result import Result
from eigen_reptile.training.setup import find_device
from eigen_reptile.training.trained import trained_experiment

LONGEST_TIMEOUT = 1_000_000
"""In seconds; torch does not accept arbitrarily long timeouts."""


def train_command(args: Sequence[str]) -> None:
    method, rest = take_name(args, METHODS, "method")
    data, rest = take_name(rest, DATASETS, "data set")
    default = TrainOptions(experiment=preset(DATASETS[data], METHODS[method]))
    options = parse(TrainOptions, rest, f"train {method} {data}", default)
    if options.out is None:
        raise UsageError("name the folder of the run: --out PATH")
    _check_work_options(options)
    _check_protocol(options.protocol, options.experiment.evaluation, default.experiment.evaluation)
    experiment = _with_protocol(options.protocol, options.experiment)
    check_only_evaluation_differs(options.out, experiment)
    name = f"{method} {data}"
    outcome = execute([_job(name, experiment, options.out, options.work)], options.work, options.output)
    if outcome.failed:
        raise outcome.failed[name]
    result = outcome.results[name]
    show_results(outcome.results, options.output, {"out": str(options.out)})
    if result.choice is None:
        raise RunError(f"{_why_no_test(result)}: try a smaller --meta.lr or --inner.lr")


def eval_command(args: Sequence[str]) -> None:
    about = f"{EvalOptions.__doc__}\n\neval RUN [DATASET]: RUN is the folder; data sets are {', '.join(DATASETS)}."
    if args and not args[0].startswith("-"):
        trained, rest = Path(args[0]), args[1:]
        experiment = trained_experiment(trained)
    elif asks_for_help(args):
        trained, rest, experiment = Path("RUN"), args, preset(DATASETS["glyphs"], METHODS["eigen-reptile"])
    else:
        raise UsageError("name the folder of a finished run: eval RUN --out PATH")
    data = experiment.data
    if rest and not rest[0].startswith("-"):
        name, rest = take_name(rest, DATASETS, "data set")
        data = DATASETS[name]
    options = parse(EvalOptions, rest, f"eval {trained}", EvalOptions(data, experiment.evaluation), about)
    if options.out is None:
        raise UsageError("name the folder for the result: --out PATH")
    find_device(options.device)  # before anything is loaded
    if options.data.is_classification != experiment.data.is_classification:
        trained_for = "classification" if experiment.data.is_classification else "regression"
        raise UsageError(f"{trained} was trained for {trained_for}: choose a data set for {trained_for}")
    for setting in OF_TRAINING:
        if getattr(options.evaluation, setting) != getattr(experiment.evaluation, setting):
            raise UsageError(f"--evaluation.{setting.replace('_', '-')} has no effect after training: leave it out")
    _check_protocol(options.protocol, options.evaluation, experiment.evaluation)
    changed = _with_protocol(options.protocol, replace(experiment, data=options.data, evaluation=options.evaluation))
    if options.data != experiment.data and not options.evaluation.noisy:
        changed = replace(changed, noise=NoiseConfig())  # the noise belongs to the training data
    with logging_to_stderr(options.output), progress_bars(options.output) as progress:
        result = evaluate_run(trained, changed, options.out, progress.start, options.device)
    show_results({trained.resolve().name: result}, options.output, {"out": str(options.out)})


def run_command(args: Sequence[str]) -> None:
    known = {**RECIPES, **STUDIES}
    name, rest = take_name(args, known, "recipe", default="RECIPE" if asks_for_help(args) else None)
    if name in STUDIES:
        return _run_studies(name, rest)
    about = f"{RunOptions.__doc__}\n\nRecipes: {', '.join(known)}."
    options = parse(RunOptions, rest, f"run {name}", RunOptions(out=Path("runs") / name), about)
    _check_work_options(options)
    check_positive("--jobs", options.jobs)
    if options.work.workers > 1 and (options.jobs > 1 or options.engine != "here"):
        raise UsageError("use either --workers, for one cell at a time, or --jobs or --engine, for several cells")
    cells = _cells(name, options)
    jobs = [_job(cell, experiment, options.out / cell, options.work) for cell, experiment in cells.items()]
    outcome = execute(jobs, options.work, options.output, options.jobs, options.engine)
    _evaluate_further(RECIPES[name], cells, options, outcome)
    results, failed = outcome.results, outcome.failed
    if results:
        show_results(results, options.output, {"out": str(options.out)})
    if failed:
        first = next(iter(failed.values()))
        if isinstance(first, DataError) and not results and len({str(error) for error in failed.values()}) == 1:
            raise first  # the same problem in all cells
        kind = ConfigError if all(isinstance(error, ConfigError) for error in failed.values()) else RunError
        reasons = "; ".join(f"{cell}: {error}" for cell, error in failed.items())
        raise kind(f"{len(failed)} of {len(cells)} cells failed. {reasons}")


def _evaluate_further(
    recipe: Recipe, cells: Mapping[str, Experiment], options: RunOptions, outcome: Outcome[Result]
) -> None:
    """Add the recipe's further evaluations of the cells that were trained, or why they failed."""
    trained = [cell for cell, result in outcome.results.items() if result.choice and cells[cell].evaluation.test]
    with logging_to_stderr(options.output), progress_bars(options.output) as progress:
        for cell in trained:
            for suffix, changed in recipe.evaluations(cells[cell]).items():
                name = f"{cell}-{suffix}"
                try:
                    outcome.results[name] = evaluate_run(
                        options.out / cell, changed, options.out / name, progress.start, options.work.device
                    )
                except FAILURES as error:
                    outcome.failed[name] = error


def _run_studies(name: str, args: Sequence[str]) -> None:
    # Here, because other commands should not wait for scikit-learn.
    from eigen_reptile.recipes.practice import PRACTICE
    from eigen_reptile.recipes.theorems import THEORY

    studies = {"theory": THEORY, "practice": PRACTICE}[name]
    about = f"{StudyOptions.__doc__}\n\nStudies: {', '.join(studies)}."
    options = parse(StudyOptions, args, f"run {name}", StudyOptions(out=Path("runs") / name), about)
    for study in options.only:
        if study not in studies:
            raise UsageError(unknown_name_message("study", study, list(studies)))
    with logging_to_stderr(options.output), progress_bars(options.output) as progress:
        written = [
            run_study(studies[study], options.out / study, progress.start)
            for study in studies
            if study in (options.only or studies)
        ]
    if options.output.json:
        print(json.dumps([str(path) for path in written]))
    elif not options.output.quiet:
        for path in written:
            print(f"wrote {printable(str(path))}")
        print(f"Tables and figures: eigen-reptile report {printable(str(options.out))}")


def quickstart_command(args: Sequence[str]) -> None:
    from eigen_reptile.report.pages import write_report

    options = parse(QuickstartOptions, args, "quickstart")
    check_positive("--steps", options.steps)
    check_positive("--glyph-steps", options.glyph_steps)
    results = {}
    with logging_to_stderr(options.output), progress_bars(options.output) as progress:
        for name in ("reptile", "eigen-reptile"):
            for data, experiment in (
                ("sine", _quick_sine(METHODS[name], options.steps)),
                ("glyphs", _quick_glyphs(METHODS[name], options.glyph_steps)),
            ):
                results[f"{name} {data}"] = run(experiment, options.out / data / name, progress.start)
        with phase(progress.start, "writing the report"):
            written = write_report(options.out, options.out / "report", ())
    page = next(path for path in written if path.suffix == ".html")
    show_results(results, options.output, {"out": str(options.out), "report": str(page)})
    if not (options.output.quiet or options.output.json):
        for path in written:
            print(f"wrote {printable(str(path))}")
        print(f"\nOpen {printable(str(page.resolve()))} in a browser.")


def _quick_sine(method: Method, steps: int) -> Experiment:
    snapshots = tuple(sorted({1, steps // 4, steps // 2, 3 * steps // 4, steps} - {0}))
    return Experiment(
        method=method,
        meta=MetaConfig(steps=steps, lr=(0.5, 1.0, 2.0)),
        evaluation=EvalConfig(every=max(1, steps // 12), snapshot_steps=snapshots),
        seeds=tuple(range(5)),
    )


def _quick_glyphs(method: Method, steps: int) -> Experiment:
    experiment = preset(DATASETS["glyphs"], method)
    evaluation = replace(experiment.evaluation, shots=(1,), tasks=40, monitor_tasks=10, every=max(1, steps // 3))
    return replace(experiment, meta=replace(experiment.meta, steps=steps), evaluation=evaluation)


def _check_work_options(options: TrainOptions | RunOptions) -> None:
    check_positive("--checkpoint-every", options.work.checkpoint_every)
    check_positive("--workers", options.work.workers)
    if not 0 < options.work.timeout <= LONGEST_TIMEOUT:
        raise UsageError(f"--timeout must be above 0 and at most {LONGEST_TIMEOUT}, not {options.work.timeout}")
    find_device(options.work.device)  # before anything is loaded


def _job(name: str, experiment: Experiment, folder: Path, work: Work) -> ExperimentJob:
    return ExperimentJob(name, experiment, folder, work.checkpoint_every, work.device)


def _cells(name: str, options: RunOptions) -> dict[str, Experiment]:
    cells = RECIPES[name].cells(options.scale)
    for cell in options.only:
        if cell not in cells:
            raise UsageError(unknown_name_message("cell", cell, list(cells)))
    return {cell: _with_options(cells[cell], options) for cell in options.only or cells}


def _with_options(experiment: Experiment, options: RunOptions) -> Experiment:
    """The recipe's experiment with the settings that the options override."""
    data = {"root": ("--data", options.data), "per_class": ("--per-class", options.per_class)}
    for setting, (flag, value) in data.items():
        if value is not None:
            if setting not in vars(experiment.data):
                name = type(experiment.data).__name__
                raise UsageError(f"{flag} cannot be used with this recipe: its data set, {name}, has no such setting")
            experiment = replace(experiment, data=replace(experiment.data, **{setting: value}))
    if options.steps is not None:
        experiment = replace(experiment, meta=replace(experiment.meta, steps=options.steps))
    if options.seeds:
        experiment = replace(experiment, seeds=options.seeds)
    return _with_protocol(options.protocol, experiment)


def _with_protocol(protocol: Protocol | None, experiment: Experiment) -> Experiment:
    """The experiment with the evaluation protocol of this name."""
    if protocol is None:
        return experiment
    return replace(experiment, evaluation=_apply_protocol(protocol, experiment.evaluation))


def _apply_protocol(protocol: Protocol, config: EvalConfig) -> EvalConfig:
    return config.authors_protocol() if protocol == "authors" else config.field_protocol()


def _check_protocol(protocol: Protocol | None, chosen: EvalConfig, default: EvalConfig) -> None:
    """Refuse settings that the protocol would override."""
    if protocol is None:
        return
    for name, value in vars(_apply_protocol(protocol, chosen)).items():
        if getattr(chosen, name) not in (value, getattr(default, name)):
            flag = f"--evaluation.{name.replace('_', '-')}"
            raise UsageError(f"--protocol {protocol} determines {flag}: leave out one of the two")


def _why_no_test(result: Result) -> str:
    iterations = [replica.diverged_at for replica in result.replicas if replica.diverged_at is not None]
    return f"training diverged at iteration {min(iterations)}" if iterations else "the validation error is not finite"
