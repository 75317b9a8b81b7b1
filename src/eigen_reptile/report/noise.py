"""What the report says of wrong labels (paper, section 5.3)."""

from collections.abc import Mapping

import numpy as np

from eigen_reptile.methods import METHODS
from eigen_reptile.noise import Kind, NoiseConfig
from eigen_reptile.report.collect import Cell, Group
from eigen_reptile.report.paired import comparisons, paired, why_not_comparable
from eigen_reptile.report.tables import markdown
from eigen_reptile.report.verdicts import HOLDS, REVERSED, UNCLEAR, Claim, more_accurate, verdict

CLEAN = NoiseConfig()
MEASURE = (1, "transductive")
"""What the paper measures under noise."""


def under(noise: NoiseConfig) -> str:
    """A noise in words, to stand behind others."""
    if noise == CLEAN:
        return ""
    rate = "" if noise.rate is None else f"{100 * noise.rate:g} % "
    table = f" by {noise.file.name}" if noise.file else ""
    return f", {rate}{noise.kind} noise in the {noise.where}{table}"


def by_noise(group: Group) -> list[tuple[NoiseConfig, Group]]:
    """The cells of a group, those under the same noise together."""
    noises = dict.fromkeys(cell.experiment.noise for cell in group.cells)
    return [
        (noise, Group(group.name, tuple(cell for cell in group.cells if cell.experiment.noise == noise)))
        for noise in noises
    ]


def about_noise(group: Group) -> list[Claim]:
    """The claims about robustness, and about what ISPL does."""
    found: list[Claim] = []
    parts = dict(by_noise(group))
    for noise, part in parts.items():
        found += _about_ispl("Eigen-Reptile", "eigen-reptile", part, noise, "hurts" if noise == CLEAN else "helps")
        found += _about_ispl("Reptile", "reptile", part, noise, "does not help")
        if noise != CLEAN and CLEAN in parts:
            found += _more_robust(group.name, parts[CLEAN], part, noise)
            found += _ispl_helps_more(group.name, parts[CLEAN], part, noise)
    return found


def _about_ispl(name: str, plain: str, part: Group, noise: NoiseConfig, does: str) -> list[Claim]:
    """What ISPL does to a method under one noise, and what the paper says that it does."""
    found: list[Claim] = []
    without = part.find(METHODS[plain])
    for settings, selecting in (("", f"{plain}-ispl"), (" with the paper's settings", f"{plain}-ispl-paper")):
        ours = part.find(METHODS[selecting]) if selecting in METHODS else None
        if ours and without and not why_not_comparable(ours, without):
            for comparison in comparisons(ours, without):
                how = f"{part.name}, {comparison.shots}-shot, {comparison.column}{under(noise) or ', no noise'}"
                claim = more_accurate(f"ISPL{settings} {does} {name}: {how}", comparison)
                found.append(claim._replace(verdict=judged(does, claim.verdict)))
    return found


def judged(does: str, more_accurate: str) -> str:
    """The verdict on what ISPL does, out of that on its being more accurate."""
    begins = next((known for known in OUTCOMES[does] if more_accurate.startswith(known)), "")
    return OUTCOMES[does].get(begins, "") + more_accurate.removeprefix(begins)


OUTCOMES = {
    "helps": {},
    "hurts": {HOLDS: "does not hold here: it helps", REVERSED: HOLDS},
    "does not help": {HOLDS: "does not hold here: it helps", REVERSED: HOLDS, UNCLEAR: f"{HOLDS}: no clear difference"},
}
"""By what ISPL is said to do: how verdicts begin if it is more accurate, and how they do then."""


def _more_robust(name: str, clean: Group, noisy: Group, noise: NoiseConfig) -> list[Claim]:
    """Whether Eigen-Reptile loses less by noise than Reptile does, task by task."""
    losses: dict[str, np.ndarray] = {}
    for method in ("eigen-reptile", "reptile"):
        scores = [_scores(part.find(METHODS[method])) for part in (clean, noisy)]
        if scores[0] is None or scores[1] is None or scores[0].shape != scores[1].shape:
            return []
        losses[method] = scores[0] - scores[1]
    found = paired(losses["reptile"], losses["eigen-reptile"])
    shots, column = MEASURE
    says = f"Eigen-Reptile loses less by noise than Reptile: {name}, {shots}-shot, {column}{under(noise)}"
    measured = (
        f"Reptile loses {100 * found.first:.2f} points, Eigen-Reptile {100 * found.second:.2f}; paired difference "
        f"{100 * found.difference:+.2f} ± {100 * found.ci95:.2f} (p = {found.p:.2g}, {found.pairs} tasks)"
    )
    return [Claim(says, measured, f"{verdict(found.difference, found.ci95)}, over the tasks")]


def _ispl_helps_more(name: str, clean: Group, noisy: Group, noise: NoiseConfig) -> list[Claim]:
    """Whether ISPL gains more for Eigen-Reptile with noise than without, task by task."""
    gains: list[np.ndarray] = []
    for part in (clean, noisy):
        scores = [_scores(part.find(METHODS[method])) for method in ("eigen-reptile-ispl", "eigen-reptile")]
        if scores[0] is None or scores[1] is None or scores[0].shape != scores[1].shape:
            return []
        gains.append(scores[0] - scores[1])
    found = paired(gains[1], gains[0])
    shots, column = MEASURE
    says = f"ISPL helps Eigen-Reptile more as more labels are wrong: {name}, {shots}-shot, {column}{under(noise)}"
    measured = (
        f"it gains {100 * found.first:+.2f} points, without noise {100 * found.second:+.2f}; paired difference "
        f"{100 * found.difference:+.2f} ± {100 * found.ci95:.2f} (p = {found.p:.2g}, {found.pairs} tasks)"
    )
    return [Claim(says, measured, f"{verdict(found.difference, found.ci95)}, over the tasks")]


def _scores(cell: Cell | None) -> np.ndarray | None:
    return cell.task_scores(*MEASURE) if cell else None


def lines_over_rate(group: Group, kind: Kind) -> dict[str, list[tuple[float, Cell]]]:
    """For each method its tested cells without noise and under this kind of it, by their rates."""
    names = {method: name for name, method in reversed(METHODS.items())}
    found: dict[str, list[tuple[float, Cell]]] = {}
    for cell in group.cells:
        noise = cell.experiment.noise
        if cell.tests and (noise == CLEAN or (noise.kind == kind and noise.rate is not None)):
            name = names.get(cell.experiment.method, cell.name)
            found.setdefault(name, []).append((noise.rate or 0.0, cell))
    return {name: sorted(points, key=lambda point: point[0]) for name, points in found.items()}


def selection_table(group: Group) -> str:
    """What the selectors kept, and how well they told wrong labels, on average over training."""
    rows = []
    for cell in group.cells:
        means: Mapping[str, float] = cell.result.get("training", {})
        if "kept" in means:
            shown = [f"{means[name]:.2f}" if name in means else "" for name in ("wrong", "kept", "precision", "recall")]
            rows.append([cell.name, *shown])
    headings = ["cell", "wrong labels", "kept", "precision of what was dropped", "recall of wrong labels"]
    return markdown(headings, rows) if rows else ""
