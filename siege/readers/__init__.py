"""Readers of files, given files that were made or damaged to break them."""

from collections.abc import Mapping
from pathlib import Path

from siege.case import Attack, Limits, Part
from siege.readers import archives, images, pickles, records, tables


def _prepare(folder: Path) -> Mapping[str, Attack]:
    return {
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
        **records.prepare(folder),
    }


READERS = Part(
    "hostile and damaged pickles, archives, images, tables, JSON and tensors; at most 5 s and 512 MiB for each",
    _prepare,
    Limits(seconds=60, cpu_seconds=5, growth=512 << 20),
    batch=2000,
    programs=(),
)
