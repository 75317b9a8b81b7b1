"""The paper's claims, each with what was measured here. A claim that does not hold is said not to hold."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from eigen_reptile.evaluate import interval95
from eigen_reptile.methods import METHODS
from eigen_reptile.report.collect import Cell, Group, shots_and_columns
from eigen_reptile.report.noise import about_noise, by_noise, under
from eigen_reptile.report.paired import comparisons, paired, why_not_comparable
from eigen_reptile.report.tables import markdown, score
from eigen_reptile.report.theory import Found, about_theory
from eigen_reptile.report.verdicts import HOLDS, REVERSED, Claim, more_accurate, verdict

STABLE = 0.02
"""A change of accuracy that still counts as stable."""


FORMS = {"paper's form": "eigen-reptile-paper", "authors' form": "eigen-reptile-authors"}
RIVALS = {
    "Reptile": "reptile",
    "the average of the weights": "average-weights",
    "the average of the gradients": "average-gradients",
    "the average of the gradients' unit vectors": "average-unit-gradients",
}


def claims(groups: Sequence[Group]) -> list[Claim]:
    """Every claim about which these results say something."""
    found: list[Claim] = []
    for group in groups:
        tested = Group(group.name, tuple(cell for cell in group.cells if cell.tests or not cell.converged))
        if tested.cells:
            found += _about_curves(tested) if group.measure == "squared error" else _about_pictures(tested)
            found += about_noise(tested)
    return found


def _about_curves(group: Group) -> list[Claim]:
    """Section 5.1."""
    found: list[Claim] = []
    for rival, rival_name in RIVALS.items():
        for form, name in FORMS.items():
            if pair := comparable(group, name, rival_name):
                says = f"The main direction ({form}) ends lower than {rival}"
                found.append(_smaller(says, *pair, Cell.final_scores))
                says = f"The main direction ({form}) converges faster than {rival}"
                found.append(_smaller(says, *pair, mean_of_curve))
    for form, name in FORMS.items():
        pair = comparable(group, name, "reptile")
        if pair and all(cell.pictured_to_the_end for cell in pair):
            says = f"Eigen-Reptile's ({form}) initial curve is flatter than Reptile's"
            found.append(_smaller(says, *pair, Cell.initial_spread))
    if pair := comparable(group, "eigen-reptile-no-sign-fix", "eigen-reptile-authors"):
        found.append(_without_sign(*pair))
    return found


def _about_pictures(group: Group) -> list[Claim]:
    """Section 5.2, and the appendix on the number of inner steps."""
    found: list[Claim] = []
    for noise, part in by_noise(group):
        reptile = part.find(METHODS["reptile"])
        for form, name in FORMS.items():
            ours = part.find(METHODS[name])
            if ours and reptile and not why_not_comparable(ours, reptile):
                for comparison in comparisons(ours, reptile):
                    how = f"{comparison.shots}-shot, {comparison.column}{under(noise)}"
                    says = f"Eigen-Reptile ({form}) is more accurate than Reptile: {group.name}, {how}"
                    found.append(more_accurate(says, comparison))
    if group.varies_inner_steps:
        found.append(_plateau(group))
    return found


def comparable(group: Group, name: str, other_name: str) -> tuple[Cell, Cell] | None:
    """The cells of two methods, if there are both, and nothing but the method differs."""
    ours, theirs = group.find(METHODS[name]), group.find(METHODS[other_name])
    if ours is None or theirs is None:
        return None
    same = replace(ours.experiment, method=theirs.experiment.method) == theirs.experiment
    return (ours, theirs) if same else None


def claims_table(groups: Sequence[Group], studies: Sequence[Found]) -> str:
    """The claims in Markdown, those of the experiments and then those of the theory; nothing if there are none."""
    rows = [list(claim) for claim in (*claims(groups), *about_theory(studies))]
    return markdown(["the paper says", "measured here", "verdict"], rows) if rows else ""


def mean_of_curve(cell: Cell) -> np.ndarray:
    """Each seed's validation error averaged over all of training after the start: small if it falls early."""
    steps, errors = cell.learning_curve()
    mean: np.ndarray = errors[steps > 0].mean(0)
    return mean


def _smaller(says: str, ours: Cell, theirs: Cell, measure: Callable[[Cell], np.ndarray]) -> Claim:
    """Whether a measure is smaller with `ours`, seed by seed: both saw the same tasks and batches."""
    if not (ours.converged and theirs.converged):
        lost = " and ".join(cell.name for cell in (ours, theirs) if not cell.converged)
        outcome = HOLDS if ours.converged else "does not hold here"
        return Claim(says, f"{lost}: diverges with every outer step", outcome)
    mine, other = measure(ours), measure(theirs)
    if mine.size < 2:
        return Claim(says, f"{mine[0]:.4f} against {other[0]:.4f}, one seed", "not decided: it needs two seeds or more")
    found = paired(mine, other)
    measured = (
        f"{score('squared error', *interval95(mine))} against {score('squared error', *interval95(other))}; "
        f"paired difference {found.difference:+.4f} ± {found.ci95:.4f} (p = {found.p:.2g}, {mine.size} seeds)"
    )
    return Claim(says, measured, verdict(-found.difference, found.ci95))


def _plateau(group: Group) -> Claim:
    """Whether accuracy changes by more than two points beyond seven inner steps."""
    says = "From 7 inner steps on the accuracy is stable (appendix, hyperparameter analysis)"
    cells = {cell.experiment.inner.steps: cell for cell in group.cells if cell.tests}
    seven = cells.get(7)
    cells = {steps: cell for steps, cell in cells.items() if seven and not why_not_comparable(cell, seven)}
    shots = max((shots for shots, _ in shots_and_columns(group.cells)), default=0)
    found = {steps: cell.task_scores(shots, "transductive") for steps, cell in sorted(cells.items())}
    scores = {steps: values for steps, values in found.items() if values is not None}
    later = {steps: paired(values, scores[7]) for steps, values in scores.items() if steps > 7 and 7 in scores}
    if not later:
        return Claim(says, "no cells with 7 and with more steps", "not decided")
    listed = ", ".join(f"{steps} steps {100 * values.mean():.2f} %" for steps, values in scores.items())
    changes = "; ".join(f"{s} against 7: {100 * p.difference:+.2f} ± {100 * p.ci95:.2f}" for s, p in later.items())
    largest = max(abs(change.difference) + change.ci95 for change in later.values())
    clear = any(abs(change.difference) - change.ci95 > STABLE for change in later.values())
    verdict = "holds here" if largest < STABLE else "does not hold here" if clear else "not decided here"
    seeds = len(cells[7].experiment.seeds)
    measured = f"{shots}-shot, {seeds} {'seed' if seeds == 1 else 'seeds'}: {listed}; points {changes}"
    return Claim(says, measured, f"{verdict}, within 2 points over the tasks")


def _without_sign(unsigned: Cell, signed: Cell) -> Claim:
    """Whether training without the sign fix gets anywhere: below half of the error of an untrained network."""
    says = "Without the sign fix (line 23 of algorithm 1) it does not converge"
    diverged, diverged_with = (
        sum(lane["diverged_at"] is not None for lane in cell.result["lanes"]) for cell in (unsigned, signed)
    )
    lanes = f"{diverged} of {len(unsigned.result['lanes'])} lanes diverged, with the sign fix {diverged_with}"
    if not unsigned.converged:
        return Claim(says, lanes, "holds here")
    _, curve = unsigned.learning_curve()
    start, end = float(curve[0].mean()), float(curve[-1].mean())
    measured = f"validation error {start:.3f} before training and {end:.3f} after it, at its best outer step; {lanes}"
    if end >= start / 2:
        return Claim(says, measured, "holds here")
    worse = _smaller("", unsigned, signed, Cell.final_scores)
    ending = {HOLDS: "a smaller", REVERSED: "a larger"}
    verdict = f"does not hold here: it converges, to {ending.get(worse.verdict, 'a similar')} test error"
    return Claim(says, f"{measured}; test error {worse.measured}", verdict)
