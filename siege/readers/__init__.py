"""Readers of files, given files that were made or damaged to break them."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from siege.case import Attack, Limits, Part, Prepare
from siege.readers import archives, images, pickles, records, tables


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
    }
    ready = {name: partial(_ready, attack) for name, attack in generated.items()}
    run = records.Run(folder)
    return {**ready, **{name: partial(_on_run, attack, run) for name, attack in records.ATTACKS.items()}}


def _ready(attack: Attack) -> Attack:
    return attack


def _on_run(attack: records.RunAttack, run: records.Run) -> Attack:
    run.make()
    return partial(attack, run)


READERS = Part(
    "hostile and damaged pickles, archives, images, tables, JSON and tensors; at most 5 s and 512 MiB for each",
    _prepare,
    Limits(seconds=60, cpu_seconds=5, growth=512 << 20),
    batch=2000,
    programs=(),
)
