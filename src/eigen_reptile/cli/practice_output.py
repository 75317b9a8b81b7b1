"""Tables about classifiers and their answers."""

import csv
import io
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from rich.table import Table

from eigen_reptile.cli.output import show_table
from eigen_reptile.practice.card import Card
from eigen_reptile.runtime.text import name_cell, path_cell, printable


class Answer(NamedTuple):
    """What a model says about a picture."""

    path: str
    answer: str
    probability: float
    """Of the most probable class."""
    p_value: float | None
    """How usual the picture is; None if the model rejects nothing."""


def show_card(card: Card, show: int) -> None:
    """The classes, the expected accuracy, and the labels that are distrusted."""
    show_table(_class_table(card, show))
    print("\n".join(map(printable, card.lines())))
    if card.suspects and show:
        show_table(_suspect_table(card, show))


def _class_table(card: Card, show: int) -> Table:
    """The classes that are recognised worst come first if not all are shown."""
    classes = list(card.classes)
    title = "classes"
    if len(classes) > show:
        title = f"the {show} of {len(classes)} classes that are recognised worst"
        classes = sorted(classes, key=lambda row: 2.0 if row.recognised is None else row.recognised / row.samples)[
            :show
        ]
    table = _table(title, "class", "samples", "recognised", "distrusted labels")
    for row in classes[:show]:
        share = "" if row.recognised is None else f" ({100 * row.recognised / row.samples:.0f} %)"
        recognised = "cannot be judged" if row.recognised is None else f"{row.recognised}{share}"
        table.add_row(printable(row.name), str(row.samples), recognised, str(row.distrusted or ""))
    return table


def _suspect_table(card: Card, show: int) -> Table:
    more = f", the first {show} of {len(card.suspects)}" if len(card.suspects) > show else ""
    table = _table(f"labels that are probably wrong{more}", "sample", "given", "suggested", "trust")
    for one in card.suspects[:show]:
        table.add_row(printable(one.sample), printable(one.given), printable(one.suggested), f"{one.trust:.2f}")
    return table


def show_answers(answers: Sequence[Answer], show: int) -> None:
    """A row for each picture; if there are more than are to be shown, how many got each answer."""
    rejects = any(one.p_value is not None for one in answers)
    table = _table(None, "picture", "answer", "probability", *(["p-value"] if rejects else []))
    for one in answers[:show]:
        p_value = [] if one.p_value is None else [f"{one.p_value:.3f}"]
        table.add_row(printable(one.path), printable(one.answer), f"{one.probability:.2f}", *p_value)
    show_table(table)
    if len(answers) > show:
        counts = Counter(one.answer for one in answers)
        summary = _table(f"all {len(answers)} pictures (--csv FILE.csv writes each)", "answer", "pictures")
        for answer, count in counts.most_common():
            summary.add_row(printable(answer), str(count))
        show_table(summary)


def answers_as_csv(answers: Sequence[Answer]) -> bytes:
    """A line for each picture. A path or class that a spreadsheet would take for a formula is made harmless."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["path", "answer", "probability", "p_value"])
    for one in answers:
        p_value = "" if one.p_value is None else f"{one.p_value:.6g}"
        writer.writerow([path_cell(one.path), name_cell(one.answer), f"{one.probability:.6g}", p_value])
    return text.getvalue().encode("utf-8", "surrogateescape")


def _table(title: str | None, *headings: str) -> Table:
    table = Table(title=title, title_justify="left")
    for heading in headings:
        table.add_column(heading)
    return table
