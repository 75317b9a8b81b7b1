"""What the commands `adapt`, `predict`, `info` and `export` do."""

import json
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from eigen_reptile.cli.arguments import UsageError
from eigen_reptile.cli.output import logging_to_stderr, progress_bars
from eigen_reptile.cli.practice_options import AdaptOptions, ExportOptions, InfoOptions, PredictOptions
from eigen_reptile.cli.practice_output import Answer, answers_as_csv, show_answers, show_card
from eigen_reptile.data.image_index import is_hidden
from eigen_reptile.data.io.images import has_image_suffix
from eigen_reptile.errors import DataError, RunError
from eigen_reptile.practice.backbones import FeatureCache, find_backbone
from eigen_reptile.practice.card import Card
from eigen_reptile.practice.choices import chosen_head
from eigen_reptile.practice.classifier import FewShotClassifier
from eigen_reptile.practice.image_folder import features_of_folder, list_image_folder
from eigen_reptile.practice.model_file import read_model
from eigen_reptile.practice.onnx_export import export_onnx
from eigen_reptile.practice.rejection import check_rate
from eigen_reptile.practice.samples import readable_features
from eigen_reptile.practice.saved_classifier import read_classifier
from eigen_reptile.runtime.files import write_atomically
from eigen_reptile.runtime.progress import StartProgress, phase
from eigen_reptile.runtime.text import printable

TOGETHER = 256
"""Pictures that are classified together; only their answers are kept."""


def adapt(options: AdaptOptions) -> None:
    _check_out(options.out)
    with logging_to_stderr(options.output), progress_bars(options.output) as progress:
        classifier, card, skipped = _adapted(options, progress.start)
    _make_parent(options.out)
    classifier.save(options.out, card)
    if options.output.json:
        print(json.dumps({"model": str(options.out), "skipped": skipped, "card": asdict(card)}))
    elif not options.output.quiet:
        show_card(card, options.show)
        if skipped:
            print(f"pictures that cannot be read, skipped: {skipped}")
        model = shlex.quote(str(options.out))
        print(printable(f"wrote {options.out}; now try: eigen-reptile predict {model} PICTURES"))


def _adapted(options: AdaptOptions, start_progress: StartProgress) -> tuple[FewShotClassifier, Card, int]:
    """The classifier, its card, and the number of pictures that were skipped."""
    head = chosen_head(options.head)
    listed = list_image_folder(options.folder, skip_broken=True)
    check_rate(options.reject, len(listed.paths))
    if len(listed.names) < 2 and options.reject is None:
        raise DataError(
            f"there is only one class in {options.folder}, {listed.names[0]}: put pictures of another class into a "
            "folder beside it, or tell it from everything else by `reject`"
        )
    backbone, cache = find_backbone(options.backbone, start_progress), FeatureCache.default()
    folder, features = features_of_folder(listed, backbone, cache, start_progress, skip_broken=True)
    classifier = FewShotClassifier(backbone, head, options.reject)
    with phase(start_progress, "learning"):
        classifier.fit_features(features, [folder.names[label] for label in folder.labels])
    with phase(start_progress, "estimating the accuracy"):
        card = classifier.card([str(path.relative_to(folder.root)) for path in folder.paths])
    return classifier, card, len(listed.paths) - len(folder.paths)


def _check_out(out: Path) -> None:
    """Refuse to overwrite anything that is not a model."""
    if not out.exists():
        return
    try:
        read_model(out)
    except RunError as error:
        raise UsageError(f"{out} exists and is not a model, so it is not replaced: choose another --out") from error


def _make_parent(file: Path) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"cannot create the folder {file.parent}: {error.strerror}") from error


def predict(options: PredictOptions) -> None:
    paths = list(_pictures(options.pictures))
    classifier = FewShotClassifier.load(options.model)
    if classifier.backbone_.image_format is None:
        raise UsageError(f"{options.model} classifies vectors, not pictures: use it in Python")
    answers: list[Answer] = []
    failed: dict[str, str] = {}
    with logging_to_stderr(options.output), progress_bars(options.output) as progress:
        report = progress.start("classifying", len(paths))
        for start in range(0, len(paths), TOGETHER):
            found, broken = _answers(classifier, paths[start : start + TOGETHER])
            answers += found
            failed |= broken
            report(min(start + TOGETHER, len(paths)), {})
    if options.csv is not None:
        _make_parent(options.csv)
        write_atomically(options.csv, answers_as_csv(answers))
    if options.output.json:
        print(json.dumps({"predictions": [one._asdict() for one in answers], "failed": failed}))
    elif not options.output.quiet:
        if answers:
            show_answers(answers, options.show)
        print("".join(printable(problem) + "\n" for problem in failed.values()), end="")
        if options.csv is not None:
            print(printable(f"wrote {options.csv}"))
    if failed:
        raise RunError(f"{len(failed)} of {len(paths)} pictures cannot be read: {next(iter(failed.values()))}")


def _pictures(given: Sequence[Path]) -> Iterator[Path]:
    """The named files, and all pictures in the named folders except hidden ones, as in `adapt`."""
    for path in given:
        if not path.is_dir():
            yield path
            continue
        found = sorted(
            file
            for file in path.rglob("*")
            if has_image_suffix(file.name) and file.is_file() and not is_hidden(file.relative_to(path).parts)
        )
        if not found:
            raise UsageError(f"there are no pictures in {path}")
        yield from found


def _answers(classifier: FewShotClassifier, paths: Sequence[Path]) -> tuple[list[Answer], dict[str, str]]:
    """Answers for all pictures that can be read, and what is wrong with the others."""
    found = readable_features(paths, classifier.backbone_)
    failed = {str(paths[row]): problem for row, problem in found.broken.items()}
    if not len(found.rows):
        return [], failed
    labels, probabilities, p_values = classifier.answers(found.features)
    p_values_or_none = [None] * len(labels) if p_values is None else p_values.tolist()
    rows = zip(found.rows, labels, probabilities.max(1).tolist(), p_values_or_none, strict=True)
    return [Answer(str(paths[row]), str(label), *numbers) for row, label, *numbers in rows], failed


def info(options: InfoOptions) -> None:
    card = read_classifier(options.model).card
    if options.output.json:
        print(json.dumps(asdict(card)))
    elif not options.output.quiet:
        show_card(card, options.show)


def export(options: ExportOptions) -> None:
    classifier = FewShotClassifier.load(options.model)
    _make_parent(options.onnx)
    with progress_bars(options.output) as progress, phase(progress.start, "exporting"):
        found = export_onnx(classifier, options.onnx)
    if options.output.json:
        print(json.dumps({"onnx": str(found.path), "difference": found.difference, "samples": found.samples}))
    elif not options.output.quiet:
        print(f"compared with PyTorch on {found.samples} samples: largest difference {found.difference:.1e}")
        print(printable(f"wrote {found.path} ({found.path.stat().st_size / 1e6:.1f} MB)"))
