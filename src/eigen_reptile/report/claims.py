"""The paper's claims, each with what was measured here. A claim that does not hold is said not to hold."""

from collections.abc import Callable, Sequence
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
    known = list(cells)
    found: list[Claim] = []
    for rival, rival_name in RIVALS.items():
        for form, name in FORMS.items():
            ours, theirs = find(known, METHODS[name]), find(known, METHODS[rival_name])
            if ours is None or theirs is None or ours.experiment.seeds != theirs.experiment.seeds:
                continue
            found.append(
                _smaller(f"The main direction ({form}) ends lower than {rival}", ours, theirs, Cell.final_errors)
            )
            found.append(
                _smaller(f"The main direction ({form}) converges faster than {rival}", ours, theirs, mean_of_curve)
            )
    for form, name in FORMS.items():
        ours, theirs = find(known, METHODS[name]), find(known, METHODS["reptile"])
        if ours and theirs and ours.result["pictures"] and theirs.result["pictures"]:
            says = f"Eigen-Reptile's ({form}) initial curve is flatter than Reptile's"
            found.append(_smaller(says, ours, theirs, Cell.initial_spread))
    unsigned, signed = (
        find(known, METHODS["eigen-reptile-no-sign-fix"]),
        find(known, METHODS["eigen-reptile-authors"]),
    )
    if unsigned and signed:
        found.append(_without_sign(unsigned, signed))
    return found


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
    mine, other = measure(ours), measure(theirs)
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
    return Claim(says, measured, "not seen here: no difference")


def _without_sign(unsigned: Cell, signed: Cell) -> Claim:
    """Whether training without the sign fix gets anywhere: below half of the error of an untrained network."""
    _, curve = unsigned.learning_curve()
    start, end = float(curve[0].mean()), float(curve[-1].mean())
    lanes = unsigned.result["lanes"]
    diverged = sum(lane["diverged_at"] is not None for lane in lanes)
    measured = (
        f"validation error {start:.3f} before training and {end:.3f} after it, at its best outer step; test error "
        f"{plus_minus(*interval95(unsigned.final_errors()))} against {plus_minus(*interval95(signed.final_errors()))} "
        f"with the sign fix; {diverged} of {len(lanes)} lanes diverged, with it "
        f"{sum(lane['diverged_at'] is not None for lane in signed.result['lanes'])}"
    )
    verdict = "does not hold here: it converges" if end < start / 2 else "holds here"
    worse = interval95(unsigned.final_errors() - signed.final_errors())
    if end < start / 2 and worse[0] - worse[1] > 0:
        verdict += ", but to a larger error"
    return Claim("Without the sign fix (line 23 of algorithm 1) it does not converge", measured, verdict)
