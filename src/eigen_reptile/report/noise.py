"""The report on label noise (paper, section 5.3)."""

from typing import Literal

import numpy as np

from eigen_reptile.methods import METHODS
from eigen_reptile.noise import NoiseConfig, NoiseKind
from eigen_reptile.report.collect import Cell, Group
from eigen_reptile.report.paired import comparisons, paired_difference, why_not_comparable
from eigen_reptile.report.table import Table
from eigen_reptile.report.verdicts import (
    HOLDS,
    INCONCLUSIVE,
    REVERSED,
    Claim,
    accuracy_claim,
    verdict_on_difference,
)

CLEAN = NoiseConfig()
SHOTS, COLUMN = 1, "transductive"
"""What the paper evaluates with noise."""

Effect = Literal["helps", "hurts", "does not help"]
"""What the paper claims ISPL does to accuracy."""


def noise_suffix(noise: NoiseConfig) -> str:
    """The noise in words, to be appended to a statement; nothing without noise."""
    if noise == CLEAN:
        return ""
    rate = "" if noise.rate is None else f"{100 * noise.rate:g} % "
    file = f" by {noise.file.name}" if noise.file else ""
    return f", {rate}{noise.kind} noise in the {noise.where}{file}"


def split_by_noise(group: Group) -> list[tuple[NoiseConfig, Group]]:
    """The cells with each noise setting, as groups of the same name."""
    noises = dict.fromkeys(cell.experiment.noise for cell in group.cells)
    return [
        (noise, Group(group.name, tuple(cell for cell in group.cells if cell.experiment.noise == noise)))
        for noise in noises
    ]


def noise_claims(group: Group) -> list[Claim]:
    """The claims about robustness to noise, and about the effect of ISPL."""
    found: list[Claim] = []
    parts = dict(split_by_noise(group))
    for noise, part in parts.items():
        found += _ispl_claims("Eigen-Reptile", "eigen-reptile", part, noise, "hurts" if noise == CLEAN else "helps")
        found += _ispl_claims("Reptile", "reptile", part, noise, "does not help")
        if noise != CLEAN and CLEAN in parts:
            found += _robustness_claim(group.name, parts[CLEAN], part, noise)
            found += _ispl_gain_claim(group.name, parts[CLEAN], part, noise)
    return found


def _ispl_claims(title: str, method: str, part: Group, noise: NoiseConfig, effect: Effect) -> list[Claim]:
    """The effect of ISPL on a method with one noise, next to the effect that the paper claims."""
    found: list[Claim] = []
    without = part.find(METHODS[method])
    for settings, with_ispl in (("", f"{method}-ispl"), (" with the paper's settings", f"{method}-ispl-paper")):
        ours = part.find(METHODS[with_ispl]) if with_ispl in METHODS else None
        if ours and without and not why_not_comparable(ours, without):
            for comparison in comparisons(ours, without):
                suffix = noise_suffix(noise) or ", no noise"
                protocol = f"{part.name}, {comparison.shots}-shot, {comparison.column}{suffix}"
                claim = accuracy_claim(f"ISPL{settings} {effect} {title}: {protocol}", comparison)
                found.append(claim._replace(verdict=ispl_verdict(effect, claim.verdict)))
    return found


ISPL_VERDICTS: dict[Effect, dict[str, str]] = {
    "helps": {},
    "hurts": {HOLDS: "does not hold: it helps", REVERSED: HOLDS},
    "does not help": {
        HOLDS: "does not hold: it helps",
        REVERSED: HOLDS,
        INCONCLUSIVE: f"{HOLDS}: no significant difference",
    },
}
"""For each effect: from the beginning of a verdict on higher accuracy with ISPL to the verdict on the effect."""


def ispl_verdict(effect: Effect, verdict_on_accuracy: str) -> str:
    """The verdict on the effect of ISPL, from the verdict on the claim that it is more accurate with ISPL."""
    verdicts = ISPL_VERDICTS[effect]
    begins = next((known for known in verdicts if verdict_on_accuracy.startswith(known)), "")
    return verdicts.get(begins, "") + verdict_on_accuracy.removeprefix(begins)


def _robustness_claim(name: str, clean: Group, noisy: Group, noise: NoiseConfig) -> list[Claim]:
    """Whether noise costs Eigen-Reptile less accuracy than Reptile, task by task."""
    losses: dict[str, np.ndarray] = {}
    for method in ("eigen-reptile", "reptile"):
        scores = [_task_scores(part.find(METHODS[method])) for part in (clean, noisy)]
        if scores[0] is None or scores[1] is None or scores[0].shape != scores[1].shape:
            return []
        losses[method] = scores[0] - scores[1]
    found = paired_difference(losses["reptile"], losses["eigen-reptile"])
    statement = (
        f"Noise costs Eigen-Reptile less accuracy than Reptile: {name}, {SHOTS}-shot, {COLUMN}{noise_suffix(noise)}"
    )
    measured = (
        f"Reptile loses {100 * found.first:.2f} points, Eigen-Reptile {100 * found.second:.2f}; paired difference "
        f"{100 * found.difference:+.2f} ± {100 * found.ci95:.2f} (p = {found.p:.2g}, {found.pairs} tasks)"
    )
    return [Claim(statement, measured, f"{verdict_on_difference(found.difference, found.ci95)}, over tasks")]


def _ispl_gain_claim(name: str, clean: Group, noisy: Group, noise: NoiseConfig) -> list[Claim]:
    """Whether Eigen-Reptile gains more from ISPL with noise than without, task by task."""
    gains: list[np.ndarray] = []
    for part in (clean, noisy):
        scores = [_task_scores(part.find(METHODS[method])) for method in ("eigen-reptile-ispl", "eigen-reptile")]
        if scores[0] is None or scores[1] is None or scores[0].shape != scores[1].shape:
            return []
        gains.append(scores[0] - scores[1])
    found = paired_difference(gains[1], gains[0])
    statement = (
        f"ISPL helps Eigen-Reptile more when more labels are wrong: {name}, {SHOTS}-shot, {COLUMN}{noise_suffix(noise)}"
    )
    measured = (
        f"gain {100 * found.first:+.2f} points, without noise {100 * found.second:+.2f}; paired difference "
        f"{100 * found.difference:+.2f} ± {100 * found.ci95:.2f} (p = {found.p:.2g}, {found.pairs} tasks)"
    )
    return [Claim(statement, measured, f"{verdict_on_difference(found.difference, found.ci95)}, over tasks")]


def _task_scores(cell: Cell | None) -> np.ndarray | None:
    return cell.task_scores(SHOTS, COLUMN) if cell else None


def cells_by_noise_rate(group: Group, kind: NoiseKind) -> dict[str, list[tuple[float, Cell]]]:
    """For each method its tested cells without noise and with one kind of noise, by noise rate."""
    names = {method: name for name, method in reversed(METHODS.items())}
    found: dict[str, list[tuple[float, Cell]]] = {}
    for cell in group.cells:
        noise = cell.experiment.noise
        if cell.tests and (noise == CLEAN or (noise.kind == kind and noise.rate is not None)):
            name = names.get(cell.experiment.method, cell.name)
            found.setdefault(name, []).append((noise.rate or 0.0, cell))
    return {name: sorted(points, key=lambda point: point[0]) for name, points in found.items()}


def selection_table(group: Group) -> Table | None:
    """How much the selectors kept, and how well they detected wrong labels; None if no cell selects samples."""
    rows = []
    for cell in group.cells:
        means = cell.result.training
        if "kept" in means:
            shown = [f"{means[name]:.2f}" if name in means else "" for name in ("wrong", "kept", "precision", "recall")]
            rows.append([cell.name, *shown])
    headings = ["cell", "wrong labels", "kept", "precision of the discarded samples", "recall of wrong labels"]
    return Table.of(headings, rows) if rows else None
