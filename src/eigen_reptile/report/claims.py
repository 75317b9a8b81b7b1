"""The paper's claims, each with what was measured here. A claim that does not hold is said not to hold."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy import stats

from eigen_reptile.evaluate import interval95
from eigen_reptile.methods import METHODS
from eigen_reptile.report.collect import Cell, find
from eigen_reptile.report.tables import markdown, plus_minus


class Claim(NamedTuple):
    says: str
    """What the paper says, in short."""
    measured: str
    verdict: str


FORMS = {"paper's form": "eigen-reptile-paper", "authors' form": "eigen-reptile-authors"}
RIVALS = {
    "Reptile": "reptile",
    "the average of the weights": "average-weights",
    "the average of the gradients": "average-gradients",
    "the average of the gradients' unit vectors": "average-unit-gradients",
}


def claims(cells: Sequence[Cell]) -> list[Claim]:
    """Every claim about which these results say something."""
    found: list[Claim] = []
    for rival, rival_name in RIVALS.items():
        for form, name in FORMS.items():
            if pair := comparable(cells, name, rival_name):
                found.append(_smaller(f"The main direction ({form}) ends lower than {rival}", *pair, Cell.final_errors))
                found.append(
                    _smaller(f"The main direction ({form}) converges faster than {rival}", *pair, mean_of_curve)
                )
    for form, name in FORMS.items():
        pair = comparable(cells, name, "reptile")
        if pair and all(cell.pictured_to_the_end for cell in pair):
            says = f"Eigen-Reptile's ({form}) initial curve is flatter than Reptile's"
            found.append(_smaller(says, *pair, Cell.initial_spread))
    if pair := comparable(cells, "eigen-reptile-no-sign-fix", "eigen-reptile-authors"):
        found.append(_without_sign(*pair))
    return found


def comparable(cells: Sequence[Cell], name: str, other_name: str) -> tuple[Cell, Cell] | None:
    """The cells of two methods, if there are both, and nothing but the method differs."""
    ours, theirs = find(list(cells), METHODS[name]), find(list(cells), METHODS[other_name])
    if ours is None or theirs is None:
        return None
    same = replace(ours.experiment, method=theirs.experiment.method) == theirs.experiment
    return (ours, theirs) if same else None


def claims_table(cells: Sequence[Cell]) -> str:
    """The claims in Markdown."""
    return markdown(["the paper says", "measured here", "verdict"], [list(claim) for claim in claims(cells)])


def mean_of_curve(cell: Cell) -> np.ndarray:
    """Each seed's validation error averaged over all of training after the start: small if it falls early."""
    steps, errors = cell.learning_curve()
    mean: np.ndarray = errors[steps > 0].mean(0)
    return mean


def _smaller(says: str, ours: Cell, theirs: Cell, measure: Callable[[Cell], np.ndarray]) -> Claim:
    """Whether a measure is smaller with `ours`, seed by seed: both saw the same tasks and batches."""
    if not (ours.converged and theirs.converged):
        lost = " and ".join(cell.name for cell in (ours, theirs) if not cell.converged)
        verdict = "holds here" if ours.converged else "does not hold here"
        return Claim(says, f"{lost}: diverges with every outer step", verdict)
    mine, other = measure(ours), measure(theirs)
    if mine.size < 2:
        return Claim(says, f"{mine[0]:.4f} against {other[0]:.4f}, one seed", "not decided: it needs two seeds or more")
    difference, half = interval95(mine - other)
    p = float(stats.ttest_rel(mine, other).pvalue)
    measured = (
        f"{plus_minus(*interval95(mine))} against {plus_minus(*interval95(other))}; "
        f"paired difference {difference:+.4f} ± {half:.4f} (p = {p:.2g}, {mine.size} seeds)"
    )
    if difference + half < 0:
        return Claim(says, measured, "holds here")
    if difference - half > 0:
        return Claim(says, measured, "does not hold here: it is the other way round")
    return Claim(says, measured, "not seen here: no clear difference")


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
    worse = _smaller("", unsigned, signed, Cell.final_errors)
    ending = {"holds here": "a smaller", "does not hold here: it is the other way round": "a larger"}
    verdict = f"does not hold here: it converges, to {ending.get(worse.verdict, 'a similar')} test error"
    return Claim(says, f"{measured}; test error {worse.measured}", verdict)
