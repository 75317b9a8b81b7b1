"""Commands that train and test."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from eigen_reptile.cli.arguments import UsageError, asks_for_help, check_positive, named, no_such, parse
from eigen_reptile.cli.options import (
    EvalOptions,
    Protocol,
    QuickstartOptions,
    RunOptions,
    TheoryOptions,
    TrainOptions,
    Work,
)
from eigen_reptile.cli.output import logging_to_stderr, progress_bars, show_results
from eigen_reptile.cli.work import carry_out
from eigen_reptile.config import Experiment, MetaConfig, standard
from eigen_reptile.data import DATASETS, DataError
from eigen_reptile.evaluate import EvalConfig
from eigen_reptile.experiment import evaluate_again, finished_experiment, run_experiment
from eigen_reptile.files import FolderError, RunError
from eigen_reptile.jobs import Job
from eigen_reptile.methods import METHODS, Method
from eigen_reptile.noise import NoiseConfig
from eigen_reptile.recipes import RECIPES
from eigen_reptile.stage import Device, found_device
from eigen_reptile.theory import STUDIES, made


def train_command(args: Sequence[str]) -> None:
    method, rest = named(args, METHODS, "method", default="eigen-reptile")
    data, rest = named(rest, DATASETS, "data set", default="glyphs" if METHODS[method].classifies else "sine")
    try:
        default = TrainOptions(experiment=standard(DATASETS[data], METHODS[method]))
    except ValueError as error:  # the two do not go together
        raise UsageError(str(error)) from error
    about = (
        f"{TrainOptions.__doc__}\n\n"
        f"train METHOD DATASET: methods are {', '.join(METHODS)}; data sets are {', '.join(DATASETS)}. "
        "Without names: eigen-reptile on sine; a method that can only tell classes apart, on glyphs. Every default "
        "shown is that of the named method and data set."
    )
    options = parse(TrainOptions, rest, f"train {method} {data}", default, about)
    if options.out is None:
        raise UsageError("name the folder of the run: --out PATH")
    _check_trainable(options)
    _check_protocol(options.protocol, options.experiment.evaluation, default.experiment.evaluation)
    experiment = _under(options.protocol, options.experiment)
    name = f"{method} {data}"
    results, failed = carry_out([_job(name, experiment, options.out, options.work)], options.work, options.output)
    if failed:
        raise failed[name]
    result = results[name]
    show_results(results, options.output, {"out": str(options.out)})
    if result["choice"] is None:
        raise RunError(f"{_why_no_test(result)}: try a smaller --meta.lr or --inner.lr")


def eval_command(args: Sequence[str]) -> None:
    about = f"{EvalOptions.__doc__}\n\neval RUN [DATASET]: RUN is the folder; data sets are {', '.join(DATASETS)}."
    if args and not args[0].startswith("-"):
        trained, rest = Path(args[0]), args[1:]
        experiment = finished_experiment(trained)
    elif asks_for_help(args):
        trained, rest, experiment = Path("RUN"), args, standard(DATASETS["glyphs"], METHODS["eigen-reptile"])
    else:
        raise UsageError("name the folder of a finished run: eval RUN --out PATH")
    data = experiment.data
    if rest and not rest[0].startswith("-"):
        name, rest = named(rest, DATASETS, "data set")
        data = DATASETS[name]
    options = parse(EvalOptions, rest, f"eval {trained}", EvalOptions(data, experiment.evaluation), about)
    if options.out is None:
        raise UsageError("name the folder for the result: --out PATH")
    _check_device(options.device)
    if options.data.classifies != experiment.data.classifies:
        learnt, others = ("tell classes apart", "curves") if experiment.data.classifies else ("fit curves", "classes")
        raise UsageError(f"{trained} has learnt to {learnt}, and this data set has {others}: name another")
    for setting in ("every", "monitor_tasks", "pictures"):
        if getattr(options.evaluation, setting) != getattr(experiment.evaluation, setting):
            raise UsageError(f"--evaluation.{setting.replace('_', '-')} is about training, which is over")
    _check_protocol(options.protocol, options.evaluation, experiment.evaluation)
    asked = replace(experiment, data=options.data, evaluation=options.evaluation)
    if options.data != experiment.data and not options.evaluation.noisy:
        asked = replace(asked, noise=NoiseConfig())  # which was that of other training data
    with logging_to_stderr(options.output), progress_bars(options.output) as progress:
        try:
            result = evaluate_again(
                trained, _under(options.protocol, asked), options.out, progress.task, options.device
            )
        except ValueError as error:
            raise UsageError(str(error)) from error
    show_results({trained.resolve().name: result}, options.output, {"out": str(options.out)})


def run_command(args: Sequence[str]) -> None:
    known = {**RECIPES, "theory": STUDIES}
    name, rest = named(args, known, "recipe", default="RECIPE" if asks_for_help(args) else None)
    if name == "theory":
        return _theory(rest)
    about = f"{RunOptions.__doc__}\n\nRecipes: {', '.join(known)}."
    options = parse(RunOptions, rest, f"run {name}", RunOptions(out=Path("runs") / name), about)
    _check_trainable(options)
    check_positive("--jobs", options.jobs)
    if options.work.workers > 1 and (options.jobs > 1 or options.engine != "here"):
        raise UsageError("use either --workers, for one cell at a time, or --jobs and --engine, for many")
    cells = _cells(name, options)
    jobs = [_job(cell, experiment, options.out / cell, options.work) for cell, experiment in cells.items()]
    results, failed = carry_out(jobs, options.work, options.output, options.jobs, options.engine)
    if results:
        show_results(results, options.output, {"out": str(options.out)})
    if failed:
        first = next(iter(failed.values()))
        if isinstance(first, DataError) and not results and len({str(error) for error in failed.values()}) == 1:
            raise first  # all cells lack the same
        kind = FolderError if all(isinstance(error, FolderError) for error in failed.values()) else RunError
        reasons = "; ".join(f"{cell}: {error}" for cell, error in failed.items())
        raise kind(f"{len(failed)} of {len(cells)} cells failed. {reasons}")


def _theory(args: Sequence[str]) -> None:
    about = f"{TheoryOptions.__doc__}\n\nStudies: {', '.join(STUDIES)}."
    options = parse(TheoryOptions, args, "run theory", TheoryOptions(), about)
    for study in options.only:
        if study not in STUDIES:
            raise UsageError(no_such("study", study, list(STUDIES)))
    with logging_to_stderr(options.output), progress_bars(options.output) as progress:
        written = [
            made(name, options.out / name, progress.task) for name in STUDIES if name in (options.only or STUDIES)
        ]
    if options.output.json:
        print(json.dumps([str(path) for path in written]))
    elif not options.output.quiet:
        for path in written:
            print(f"wrote {path}")
        print(f"Tables and figures: eigen-reptile report {options.out}")


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
                results[f"{name} {data}"] = run_experiment(experiment, options.out / data / name, progress.task)
    written = write_report(options.out, options.out / "report", ())
    page = next(path for path in written if path.suffix == ".html")
    show_results(results, options.output, {"out": str(options.out), "report": str(page)})
    if not (options.output.quiet or options.output.json):
        for path in written:
            print(f"wrote {path}")
        print(f"\nOpen {page.resolve()} in a browser.")


def _quick_sine(method: Method, steps: int) -> Experiment:
    pictures = tuple(sorted({1, steps // 4, steps // 2, 3 * steps // 4, steps} - {0}))
    return Experiment(
        method=method,
        meta=MetaConfig(steps=steps, lr=(0.5, 1.0, 2.0)),
        evaluation=EvalConfig(every=max(1, steps // 12), pictures=pictures),
        seeds=tuple(range(5)),
    )


def _quick_glyphs(method: Method, steps: int) -> Experiment:
    experiment = standard(DATASETS["glyphs"], method)
    evaluation = replace(experiment.evaluation, shots=(1,), tasks=40, monitor_tasks=10, every=max(1, steps // 3))
    return replace(experiment, meta=replace(experiment.meta, steps=steps), evaluation=evaluation)


def _check_trainable(options: TrainOptions | RunOptions) -> None:
    check_positive("--checkpoint-every", options.work.checkpoint_every)
    check_positive("--workers", options.work.workers)
    if not 0 < options.work.timeout < math.inf:
        raise UsageError(f"--timeout must be finite and above 0, not {options.work.timeout}")
    _check_device(options.work.device)


def _check_device(device: Device) -> None:
    try:
        found_device(device)
    except ValueError as error:
        raise UsageError(str(error)) from error


def _job(name: str, experiment: Experiment, folder: Path, work: Work) -> Job:
    return Job(name, experiment, folder, work.checkpoint_every, work.device)


def _cells(name: str, options: RunOptions) -> dict[str, Experiment]:
    cells = RECIPES[name].cells(options.scale)
    for cell in options.only:
        if cell not in cells:
            raise UsageError(no_such("cell", cell, list(cells)))
    try:
        return {cell: _as_asked(cells[cell], options) for cell in options.only or cells}
    except ValueError as error:
        raise UsageError(str(error)) from error


def _as_asked(experiment: Experiment, options: RunOptions) -> Experiment:
    """The recipe's experiment with what the options put in place of its settings."""
    data = {"root": options.data, "per_class": options.per_class}
    for setting, value in data.items():
        if value is not None:
            if setting not in vars(experiment.data):
                raise ValueError(f"this recipe's data set has no {setting}")
            experiment = replace(experiment, data=replace(experiment.data, **{setting: value}))
    if options.steps is not None:
        experiment = replace(experiment, meta=replace(experiment.meta, steps=options.steps))
    if options.seeds:
        experiment = replace(experiment, seeds=options.seeds)
    return _under(options.protocol, experiment)


def _under(protocol: Protocol | None, experiment: Experiment) -> Experiment:
    """The experiment under one of the known protocols of evaluation."""
    if protocol is None:
        return experiment
    return replace(experiment, evaluation=_by(protocol, experiment.evaluation))


def _by(protocol: Protocol, config: EvalConfig) -> EvalConfig:
    return config.by_authors() if protocol == "authors" else config.by_field()


def _check_protocol(protocol: Protocol | None, asked: EvalConfig, default: EvalConfig) -> None:
    """A setting that was asked for must not be one that the protocol has too."""
    if protocol is None:
        return
    for name, value in vars(_by(protocol, asked)).items():
        if getattr(asked, name) not in (value, getattr(default, name)):
            flag = f"--evaluation.{name.replace('_', '-')}"
            raise UsageError(f"--protocol {protocol} has its own {flag}: leave out one of the two")


def _why_no_test(result: Mapping[str, Any]) -> str:
    iterations = [lane["diverged_at"] for lane in result["lanes"] if lane["diverged_at"] is not None]
    return f"training diverged at iteration {min(iterations)}" if iterations else "the validation error is not finite"
