"""Readers of files, given files that were made or damaged to break them."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from siege.case import Attack, Limits, Part, Prepare
from siege.readers import archives, features, images, models, moves, networks, pickles, records, tables


def _prepare(folder: Path) -> Mapping[str, Prepare]:
    generated: dict[str, Attack] = {
        "pickle, generated": pickles.generated,
        "pickle, damaged": pickles.damaged,
        "CIFAR-100, generated": pickles.cifar,
        "mini-ImageNet, generated": pickles.mini_imagenet,
        "tar, generated": archives.generated_tar,
        "tar, damaged": archives.damaged_tar,
        "zip, generated": archives.generated_zip,
        "zip, damaged": archives.damaged_zip,
        "image, damaged": images.damaged,
        "image, generated": images.generated,
        "npz of labels": tables.npz_labels,
        "CSV of labels": tables.csv_labels,
        "transition table": tables.transitions,
        "decisions of an audit": moves.decisions,
        "log of moves": moves.log_of_moves,
    }
    run = records.Run(folder)
    learnt = models.Models(run)
    return {
        **{name: partial(_ready, attack) for name, attack in generated.items()},
        "cache of features, generated": partial(_ready, features.generated, features.prepare),
        "cache of features, damaged": partial(_ready, features.damaged, features.prepare),
        **{name: partial(_ready, partial(attack, run), run.make) for name, attack in records.ATTACKS.items()},
        **{name: partial(_ready, partial(attack, learnt), learnt.make) for name, attack in models.ATTACKS.items()},
        **_networks(),
    }


def _networks() -> dict[str, Prepare]:
    """Attacks that need onnxruntime, if it is installed."""
    attacks = {"ONNX, generated": networks.generated, "ONNX, damaged": networks.damaged}
    return {
        name: partial(_ready, attack, networks.prepare) for name, attack in attacks.items() if networks.IS_INSTALLED
    }


def _ready(attack: Attack, prepare: Callable[[], None] = lambda: None) -> Attack:
    prepare()
    return attack


READERS = Part(
    "hostile and damaged pickles, archives, images, tables, JSON, models, caches; at most 5 s and 512 MiB for each",
    _prepare,
    Limits(seconds=60, cpu_seconds=5, growth=512 << 20),
    batch=2000,
    programs=(),
)
