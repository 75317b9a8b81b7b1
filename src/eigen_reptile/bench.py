"""Speed against the loop that anyone would write, measured in turns so that a noisy machine disturbs all alike."""

import copy
import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from eigen_reptile.config import Experiment, MetaConfig
from eigen_reptile.experiment import environment
from eigen_reptile.methods import METHODS
from eigen_reptile.progress import Report, silent
from eigen_reptile.runs import write_json
from eigen_reptile.stage import found_device, prepare
from eigen_reptile.tasks import Batches, Tasks
from eigen_reptile.train import TrainState, iterate, maybe_compiled, settle_machine, training_data

SECONDS_PER_TURN = 0.7

Contender = Callable[[], None]
"""Does one outer iteration."""


def plain_reptile(module: nn.Module, tasks: Tasks, batches: Batches, inner_lr: float, outer_lr: float) -> None:
    """Reptile as anyone would write it: copy the module, step torch.optim, one task at a time; changes `module`."""
    moved = [torch.zeros_like(parameter) for parameter in module.parameters()]
    count = tasks.x.shape[1]
    for task in range(count):
        fitted = copy.deepcopy(module)
        optimizer = torch.optim.SGD(fitted.parameters(), lr=inner_lr)
        for chosen in batches.chosen[0, task]:
            loss = nn.functional.mse_loss(fitted(tasks.x[0, task, chosen]), tasks.y[0, task, chosen])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        for total, after, before in zip(moved, fitted.parameters(), module.parameters(), strict=True):
            total += after.detach() - before.detach()
    with torch.no_grad():
        for parameter, total in zip(module.parameters(), moved, strict=True):
            parameter.add_(total, alpha=outer_lr / count)


def sine(repeats: int, report: Report) -> dict[str, Any]:
    """Outer iterations per second on the sine wave: 5 tasks an iteration, and 25 seeds side by side."""
    settle_machine()
    many_tasks = MetaConfig(batch=5, steps=1_000_000, lr=(0.1,))
    many_seeds = MetaConfig(batch=1, steps=1_000_000, lr=(0.1,))
    groups: list[tuple[str, int, dict[str, Contender]]] = []
    for title, meta, seeds in (("5 tasks an iteration", many_tasks, 1), ("25 seeds, 1 task each", many_seeds, 25)):
        contenders = {"plain PyTorch Reptile": _plain(meta)}
        for method in ("reptile", "eigen-reptile"):
            contenders[method] = _library(
                Experiment(method=METHODS[method], meta=meta, seeds=tuple(range(seeds)), compile="auto")
            )
        groups.append((title, seeds, contenders))

    speeds: dict[tuple[str, str], list[float]] = {}
    for title, _, contenders in groups:
        for contender in contenders.values():
            _per_second(contender, seconds=0)  # compiles and warms up
        for name in contenders:
            speeds[title, name] = []
    for turn in range(repeats):
        for title, seeds, contenders in groups:
            for name, contender in contenders.items():
                lanes = 1 if name.startswith("plain") else seeds
                speeds[title, name].append(lanes * _per_second(contender, SECONDS_PER_TURN))
        report(turn + 1, {})
    return {
        "title": "sine wave: seed-iterations per second, medians of interleaved turns",
        "columns": ["per second", "slowest", "fastest", "times plain", "times Reptile's cost"],
        "rows": [row for title, _, contenders in groups for row in _rows(title, list(contenders), speeds)],
        "repeats": repeats,
        "environment": environment(found_device("auto")),
    }


def save(figures: Mapping[str, Any], path: Path) -> None:
    """Keep the figures as JSON."""
    write_json(path, figures)


def _rows(title: str, names: list[str], speeds: Mapping[tuple[str, str], list[float]]) -> list[list[str | float]]:
    plain, reptile = speeds[title, names[0]], speeds[title, "reptile"]
    rows: list[list[str | float]] = []
    for name in names:
        own = speeds[title, name]
        gain = statistics.median(mine / theirs for mine, theirs in zip(own, plain, strict=True))
        cost = statistics.median(theirs / mine for mine, theirs in zip(own, reptile, strict=True))
        rows.append([f"{title}: {name}", statistics.median(own), min(own), max(own), gain, cost])
    return rows


def _per_second(contender: Contender, seconds: float) -> float:
    """Iterations per second over at least three iterations and this much time."""
    start, done = time.perf_counter(), 0
    while done < 3 or time.perf_counter() - start < seconds:
        contender()
        done += 1
    return done / (time.perf_counter() - start)


def _plain(meta: MetaConfig) -> Contender:
    """The plain loop on tasks drawn beforehand: it is not charged for sampling."""
    stage = prepare(Experiment(meta=meta), silent)
    exp = stage.exp
    torch.manual_seed(0)
    module = exp.model.build(stage.banks.train.shape, exp.task.way).to(stage.device)
    drawn = [training_data(stage, step) for step in range(20)]
    turn = 0

    def contender() -> None:
        nonlocal turn
        plain_reptile(module, *drawn[turn % len(drawn)], exp.inner.lr, meta.lr[0])
        turn += 1

    return contender


def _library(exp: Experiment) -> Contender:
    """A whole iteration as `train` does it, sampling included."""
    stage = prepare(exp, silent)
    propose = maybe_compiled(exp)
    state = TrainState.fresh(stage)

    @torch.no_grad()
    def contender() -> None:
        nonlocal state
        state, _ = iterate(stage, propose, state)

    return contender
