"""Claims of the paper: the statement, the measurement, and a verdict on whether the one supports the other."""

from typing import NamedTuple

from eigen_reptile.report.paired import Comparison

HOLDS = "holds"
REVERSED = "does not hold: the effect is reversed"
INCONCLUSIVE = "inconclusive: no significant difference"


class Claim(NamedTuple):
    statement: str
    """What the paper claims, in short."""
    measured: str
    verdict: str


def accuracy_claim(statement: str, comparison: Comparison) -> Claim:
    """The claim that the first run of a comparison is more accurate."""
    tasks, seeds = comparison.over_tasks, comparison.over_seeds
    measured = (
        f"{100 * tasks.first:.2f} % against {100 * tasks.second:.2f} %; paired difference "
        f"{100 * tasks.difference:+.2f} ± {100 * tasks.ci95:.2f} points (p = {tasks.p:.2g}, {tasks.pairs} tasks)"
    )
    if seeds is not None:
        measured += f"; over {seeds.pairs} seeds {100 * seeds.difference:+.2f} ± {100 * seeds.ci95:.2f}"
    return Claim(statement, measured, verdict_on_methods(comparison))


def verdict_on_methods(comparison: Comparison) -> str:
    """Tasks distinguish trained networks; only seeds, each of which trains its own network, distinguish methods."""
    tasks, seeds = comparison.over_tasks, comparison.over_seeds
    on_networks = verdict_on_difference(tasks.difference, tasks.ci95)
    if on_networks == INCONCLUSIVE:
        return INCONCLUSIVE
    if seeds is not None and verdict_on_difference(seeds.difference, seeds.ci95) == on_networks:
        return on_networks
    count = "one seed" if seeds is None else f"{seeds.pairs} seeds"
    return f"{on_networks} for the trained networks (over tasks); {count} cannot distinguish the methods"


def verdict_on_difference(gain: float, ci95: float) -> str:
    """The verdict on the claim that a gain is positive, by its 95 % interval."""
    if gain - ci95 > 0:
        return HOLDS
    return REVERSED if gain + ci95 < 0 else INCONCLUSIVE
