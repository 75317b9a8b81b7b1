"""Claims and verdicts: what is said, what was measured, and whether that bears it out."""

from typing import NamedTuple

from eigen_reptile.report.paired import Comparison

HOLDS = "holds here"
REVERSED = "does not hold here: it is the other way round"
UNCLEAR = "not seen here: no clear difference"


class Claim(NamedTuple):
    says: str
    """What the paper says, in short."""
    measured: str
    verdict: str


def more_accurate(says: str, comparison: Comparison) -> Claim:
    tasks, seeds = comparison.over_tasks, comparison.over_seeds
    measured = (
        f"{100 * tasks.first:.2f} % against {100 * tasks.second:.2f} %; paired difference "
        f"{100 * tasks.difference:+.2f} ± {100 * tasks.ci95:.2f} points (p = {tasks.p:.2g}, {tasks.pairs} tasks)"
    )
    if seeds is not None:
        measured += f"; over {seeds.pairs} seeds {100 * seeds.difference:+.2f} ± {100 * seeds.ci95:.2f}"
    return Claim(says, measured, verdict_on_methods(comparison))


def verdict_on_methods(comparison: Comparison) -> str:
    """Tasks tell trained networks apart; only seeds, each of which is a network of its own, tell methods apart."""
    tasks, seeds = comparison.over_tasks, comparison.over_seeds
    on_networks = verdict(tasks.difference, tasks.ci95)
    if on_networks == UNCLEAR:
        return UNCLEAR
    if seeds is not None and verdict(seeds.difference, seeds.ci95) == on_networks:
        return on_networks
    count = "one seed" if seeds is None else f"{seeds.pairs} seeds"
    return f"{on_networks} for the networks that were trained, over the tasks; {count} cannot tell about the methods"


def verdict(gain: float, ci95: float) -> str:
    if gain - ci95 > 0:
        return HOLDS
    return REVERSED if gain + ci95 < 0 else UNCLEAR
