"""The claims of the paper, each with a measurement and a verdict."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from eigen_reptile.methods import METHODS
from eigen_reptile.report.collect import Cell, Group, shots_and_columns
from eigen_reptile.report.noise import noise_claims, noise_suffix, split_by_noise
from eigen_reptile.report.paired import comparisons, paired_difference, why_not_comparable
from eigen_reptile.report.table import Table
from eigen_reptile.report.tables import format_score
from eigen_reptile.report.theory import StudyResult, theory_claims
from eigen_reptile.report.verdicts import HOLDS, REVERSED, Claim, accuracy_claim, verdict_on_difference
from eigen_reptile.training.evaluate import interval95

STABLE = 0.02
"""Largest change of accuracy that counts as stable."""
FORMS = {"paper's form": "eigen-reptile-paper", "authors' form": "eigen-reptile-authors"}
RIVALS = {
    "Reptile": "reptile",
    "the average of the weights": "average-weights",
    "the average of the gradients": "average-gradients",
    "the average of the gradients' unit vectors": "average-unit-gradients",
}


def experiment_claims(groups: Sequence[Group]) -> list[Claim]:
    """Every claim that these results can confirm or contradict."""
    found: list[Claim] = []
    for group in (group for group in groups if group.is_of_paper):
        tested = Group(group.name, tuple(cell for cell in group.cells if _is_tested(cell)))
        if tested.cells:
            found += _regression_claims(tested) if group.measure == "squared error" else _image_claims(tested)
            found += noise_claims(tested)
    return found


def _is_tested(cell: Cell) -> bool:
    """Whether a cell has what the paper's claims are about: tests whose support has no noise of its own."""
    return bool(cell.tests or not cell.converged) and cell.experiment.evaluation.support_noise == "none"


def claims_table(groups: Sequence[Group], studies: Sequence[StudyResult]) -> Table | None:
    """The claims about experiments, then those about the theory; None if there are none."""
    claims = [*experiment_claims(groups), *theory_claims(studies)]
    return Table.of(["claim of the paper", "measured here", "verdict"], claims) if claims else None


def _regression_claims(group: Group) -> list[Claim]:
    """Section 5.1."""
    found: list[Claim] = []
    for rival, rival_name in RIVALS.items():
        for form, name in FORMS.items():
            if pair := comparable_cells(group, name, rival_name):
                statement = f"The main direction ({form}) reaches a lower error than {rival}"
                found.append(_lower_claim(statement, *pair, Cell.final_scores))
                statement = f"The main direction ({form}) converges faster than {rival}"
                found.append(_lower_claim(statement, *pair, mean_validation_error))
    for form, name in FORMS.items():
        pair = comparable_cells(group, name, "reptile")
        if pair and all(cell.has_final_snapshot for cell in pair):
            statement = f"Eigen-Reptile's ({form}) initial curve is flatter than Reptile's"
            found.append(_lower_claim(statement, *pair, Cell.initial_spread))
    if pair := comparable_cells(group, "eigen-reptile-no-sign-fix", "eigen-reptile-authors"):
        found.append(_sign_fix_claim(*pair))
    return found


def _image_claims(group: Group) -> list[Claim]:
    """Section 5.2, and the appendix on the number of inner steps."""
    found: list[Claim] = []
    for noise, part in split_by_noise(group):
        reptile = part.find(METHODS["reptile"])
        for form, name in FORMS.items():
            ours = part.find(METHODS[name])
            if ours and reptile and not why_not_comparable(ours, reptile):
                for comparison in comparisons(ours, reptile):
                    protocol = f"{group.name}, {comparison.shots}-shot, {comparison.column}{noise_suffix(noise)}"
                    statement = f"Eigen-Reptile ({form}) is more accurate than Reptile: {protocol}"
                    found.append(accuracy_claim(statement, comparison))
    if group.varies_inner_steps:
        found.append(_plateau_claim(group))
    return found


def comparable_cells(group: Group, name: str, other_name: str) -> tuple[Cell, Cell] | None:
    """The cells of two methods, if the group has both and they differ in nothing but the method."""
    ours, theirs = group.find(METHODS[name]), group.find(METHODS[other_name])
    if ours is None or theirs is None:
        return None
    same = replace(ours.experiment, method=theirs.experiment.method) == theirs.experiment
    return (ours, theirs) if same else None


def mean_validation_error(cell: Cell) -> np.ndarray:
    """Each seed's validation error, averaged over training except its start: small if the error falls early."""
    steps, errors = cell.learning_curve()
    mean: np.ndarray = errors[steps > 0].mean(0)
    return mean


def _lower_claim(statement: str, ours: Cell, theirs: Cell, measure: Callable[[Cell], np.ndarray]) -> Claim:
    """The claim that a measure is lower with `ours`, paired by seed: both had the same tasks and batches."""
    if not (ours.converged and theirs.converged):
        diverged = " and ".join(cell.name for cell in (ours, theirs) if not cell.converged)
        verdict = HOLDS if ours.converged else "does not hold"
        return Claim(statement, f"{diverged}: diverges with every outer step size", verdict)
    first, second = measure(ours), measure(theirs)
    if first.size < 2:
        return Claim(
            statement, f"{first[0]:.4f} against {second[0]:.4f}, one seed", "inconclusive: two seeds are needed"
        )
    found = paired_difference(first, second)
    scores = " against ".join(format_score("squared error", *interval95(values)) for values in (first, second))
    measured = (
        f"{scores}; "
        f"paired difference {found.difference:+.4f} ± {found.ci95:.4f} (p = {found.p:.2g}, {first.size} seeds)"
    )
    return Claim(statement, measured, verdict_on_difference(-found.difference, found.ci95))


def _plateau_claim(group: Group) -> Claim:
    """The claim that accuracy changes by no more than two points beyond seven inner steps."""
    statement = "From 7 inner steps on, the accuracy is stable (appendix, hyperparameter analysis)"
    cells = {cell.experiment.inner.steps: cell for cell in group.cells if cell.tests}
    seven = cells.get(7)
    cells = {steps: cell for steps, cell in cells.items() if seven and not why_not_comparable(cell, seven)}
    shots = max((shots for shots, _ in shots_and_columns(group.cells)), default=0)
    found = {steps: cell.task_scores(shots, "transductive") for steps, cell in sorted(cells.items())}
    scores = {steps: values for steps, values in found.items() if values is not None}
    changes = {
        steps: paired_difference(values, scores[7]) for steps, values in scores.items() if steps > 7 and 7 in scores
    }
    if not changes:
        return Claim(statement, "no cells with 7 and with more steps", "inconclusive")
    accuracies = ", ".join(f"{steps} steps {100 * values.mean():.2f} %" for steps, values in scores.items())
    differences = "; ".join(
        f"{steps} against 7: {100 * change.difference:+.2f} ± {100 * change.ci95:.2f}"
        for steps, change in changes.items()
    )
    largest = max(abs(change.difference) + change.ci95 for change in changes.values())
    clearly_larger = any(abs(change.difference) - change.ci95 > STABLE for change in changes.values())
    verdict = HOLDS if largest < STABLE else "does not hold" if clearly_larger else "inconclusive"
    seeds = len(cells[7].experiment.seeds)
    measured = (
        f"{shots}-shot, {seeds} {'seed' if seeds == 1 else 'seeds'}: {accuracies}; difference in points {differences}"
    )
    return Claim(statement, measured, f"{verdict}, within 2 points over tasks")


def _sign_fix_claim(without: Cell, with_fix: Cell) -> Claim:
    """The claim that training fails without the sign fix: the error stays above half of that before training."""
    statement = "Without the sign fix (line 23 of algorithm 1), training does not converge"
    diverged, diverged_with_fix = (
        sum(replica.diverged_at is not None for replica in cell.result.replicas) for cell in (without, with_fix)
    )
    replicas = f"{diverged} of {len(without.result.replicas)} replicas diverged, with the sign fix {diverged_with_fix}"
    if not without.converged:
        return Claim(statement, replicas, HOLDS)
    _, curve = without.learning_curve()
    start, end = float(curve[0].mean()), float(curve[-1].mean())
    measured = (
        f"validation error {start:.3f} before training and {end:.3f} after it, with its best outer step size; "
        f"{replicas}"
    )
    if end >= start / 2:
        return Claim(statement, measured, HOLDS)
    comparison = _lower_claim("", without, with_fix, Cell.final_scores)
    size = {HOLDS: "a smaller", REVERSED: "a larger"}.get(comparison.verdict, "a similar")
    verdict = f"does not hold: it converges, to {size} test error"
    return Claim(statement, f"{measured}; test error {comparison.measured}", verdict)
