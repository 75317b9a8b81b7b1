"""The `audit` command: which labels are probably wrong, and moving those files that a person agrees about."""

import json
import shlex
import signal
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from eigen_reptile.cli.arguments import UsageError, parse
from eigen_reptile.cli.audit_options import AuditOptions
from eigen_reptile.cli.output import logging_to_stderr, progress_bars, show_table
from eigen_reptile.cli.output_options import Output
from eigen_reptile.errors import ConfigError, RunError
from eigen_reptile.practice.audit import FIRST, Audit, audit_labels
from eigen_reptile.practice.audit.decisions import FILE as DECISIONS, read_decisions
from eigen_reptile.practice.audit.labels_csv import write_labels
from eigen_reptile.practice.audit.moves import Moved, MoveLog
from eigen_reptile.practice.audit.review import Review, review_of
from eigen_reptile.practice.audit.server import serving
from eigen_reptile.practice.backbones import FeatureCache, find_backbone
from eigen_reptile.practice.image_folder import features_of_folder, list_image_folder
from eigen_reptile.runtime.files import expanded
from eigen_reptile.runtime.folder_lock import FolderLock
from eigen_reptile.runtime.interruption import Interrupted
from eigen_reptile.runtime.progress import phase
from eigen_reptile.runtime.text import printable

TABLE = "labels.csv"
SHOWN = 20
"""Suspects in the table on the terminal."""


def audit_command(args: Sequence[str]) -> None:
    options = parse(AuditOptions, args, "audit")
    if options.apply and options.undo:
        raise UsageError("choose one of --apply and --undo")
    if options.dry_run and not (options.apply or options.undo):
        raise UsageError("--dry-run goes with --apply or --undo")
    folder = expanded(options.folder)
    if not folder.is_dir():
        raise UsageError(f"there is no folder {folder}")
    out = _output_folder(folder, options.out)
    if options.apply or options.undo:
        _move(folder, out, options)
    else:
        _audit(folder, out, options)


def _output_folder(folder: Path, chosen: Path | None) -> Path:
    """The folder for what the command writes, which is never among the classes."""
    classes = folder.resolve()
    out = classes.parent / f"{classes.name}-audit" if chosen is None else expanded(chosen)
    if out.resolve().is_relative_to(classes):
        raise ConfigError(f"`out` must be outside of the folder of the classes, not {out}")
    return out


def _audit(folder: Path, out: Path, options: AuditOptions) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot create the folder {out}: {error.strerror}; choose another --out") from error
    with FolderLock.hold(out):
        with logging_to_stderr(options.output), progress_bars(options.output) as progress:
            with MoveLog.locked(folder, out):
                pass  # which completes a move that was interrupted
            found = list_image_folder(folder, skip_broken=True)
            backbone = find_backbone(options.backbone, progress.start)
            if backbone.image_format is None:
                raise ConfigError(f"`backbone` must take images, but {options.backbone} takes vectors")
            readable, features = features_of_folder(
                found, backbone, FeatureCache.default(), progress.start, skip_broken=True
            )
            with phase(progress.start, "judging labels"):
                audit = audit_labels(features, [readable.names[label] for label in readable.labels], options.below)
            paths = [path.relative_to(readable.root).as_posix() for path in readable.paths]
            write_labels(out / TABLE, audit, paths)
            review = review_of(folder, audit, paths, out, _commands(folder, options.out))
        if options.output.json:
            print(json.dumps(_as_json(audit, paths, out)))
        elif not options.output.quiet:
            _show(audit, paths, out)
            if options.page and review.suspects:
                _serve(review, options.port, out)


def _commands(folder: Path, out: Path | None) -> dict[str, str]:
    """What to type after the audit."""
    words = ["eigen-reptile", "audit", str(folder), *(["--out", str(out)] if out else [])]
    return {name: printable(shlex.join([*words, f"--{name}"])) for name in ("apply", "undo")}


def _show(audit: Audit, paths: Sequence[str], out: Path) -> None:
    """The most suspicious labels, and how many are expected to be wrong."""
    suspects = audit.suspects
    wrong = f"about {audit.expected_wrong():.0f} expected to be wrong"
    print(f"{len(paths):,} labels in {len(audit.classes)} classes, {wrong}")
    if audit.not_judged:
        print(f"{audit.not_judged} of them cannot be judged, because their class has no other picture")
    if suspects:
        first = min(FIRST, len(paths))
        print(
            f"of the {first} least trusted, about {audit.expected_wrong(first):.0f} are expected to be wrong; it can "
            "be half as many again (see --help)"
        )
        table = Table(title="the most suspicious labels", title_justify="left")
        table.add_column("trust", justify="right")
        for heading in ("given", "suggested", "picture"):
            table.add_column(heading)
        for sample in suspects[:SHOWN]:
            given, suggested = (audit.classes[numbers[sample]] for numbers in (audit.given, audit.suggested))
            table.add_row(f"{audit.trust[sample]:.3f}", *map(printable, (given, suggested, paths[sample])))
        show_table(table)
        if len(suspects) > SHOWN:
            print(f"and {len(suspects) - SHOWN} more suspects")
    else:
        print("no label is suspicious")
    print(f"wrote {printable(str(out / TABLE))}")


def _as_json(audit: Audit, paths: Sequence[str], out: Path) -> dict[str, Any]:
    return {
        "labels": len(paths),
        "classes": list(audit.classes),
        "not_judged": audit.not_judged,
        "expected_wrong": audit.expected_wrong(),
        f"expected_wrong_of_first_{FIRST}": audit.expected_wrong(FIRST),
        "suspects": [
            {
                "path": paths[row.sample],
                "given": row.given,
                "suggested": row.suggested,
                "trust": row.trust,
                "evidence": None if row.evidence is None else paths[row.evidence],
            }
            for row in audit.rows()
            if row.suggested != row.given
        ],
        "table": str(out / TABLE),
        "decisions": str(out / DECISIONS),
    }


def _serve(review: Review, port: int, out: Path) -> None:
    """Serve the page until Ctrl-C, which is how it is meant to end."""
    with serving(review, port) as site:
        print(f"\naccept or reject each suggestion on this page, then press Ctrl-C here:\n  {site.address}", flush=True)
        try:
            threading.Event().wait()
        except KeyboardInterrupt as stop:
            if isinstance(stop, Interrupted) and stop.number != signal.SIGINT:
                raise
    verdicts = list(review.decisions.verdicts().values())
    accepted, rejected = verdicts.count("accept"), verdicts.count("reject")
    print(
        f"\n{accepted} accepted, {rejected} rejected, {len(review.suspects) - len(verdicts)} left; kept in "
        f"{printable(str(out / DECISIONS))}"
    )
    if accepted:
        print(f"to move the accepted files: {review.commands['apply']}")


def _move(folder: Path, out: Path, options: AuditOptions) -> None:
    if not out.is_dir():
        raise UsageError(f"there is no audit in {out}: run eigen-reptile audit {shlex.quote(str(folder))} first")
    with MoveLog.locked(folder, out) as log:
        moved = log.apply(read_decisions(out), options.dry_run) if options.apply else log.undo(options.dry_run)
    _show_moves(moved, options, folder, options.output)
    if moved.problems:
        raise RunError(f"{len(moved.problems)} of {len(moved.problems) + len(moved.done)} files were not moved")


def _show_moves(moved: Moved, options: AuditOptions, folder: Path, output: Output) -> None:
    if output.json:
        moves = [{"from": move.source, "to": move.target} for move in moved.done]
        print(json.dumps({"dry_run": options.dry_run, "moved": moves, "problems": moved.problems}))
        return
    if output.quiet:
        return
    verb = "would move" if options.dry_run else "moved"
    for move in moved.done:
        print(printable(f"{verb} {move.source} to {move.target}"))
    for problem in moved.problems:
        print(printable(problem))
    back = " back" if options.undo else ""
    if not moved.done and not moved.problems:
        print("nothing to undo" if options.undo else "nothing to move: accept suggestions on the page first")
    else:
        print(f"{verb} {len(moved.done)} file{'s' * (len(moved.done) != 1)}{back}")
    if options.apply and moved.done and not options.dry_run:
        print(f"to move them back: {_commands(folder, options.out)['undo']}")
