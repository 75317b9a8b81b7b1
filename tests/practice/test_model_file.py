"""Saved classifiers: the same predictions bit for bit, and one clear line for whatever is wrong with a file."""

import json
import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch

from blobs import blobs
from eigen_reptile import FewShotClassifier
from eigen_reptile.errors import ConfigError, RunError
from eigen_reptile.practice.backbones import FunctionBackbone
from eigen_reptile.practice.heads import HEADS, Head, LinearHead, Support
from eigen_reptile.practice.model_file import ModelFile, read_model, write_model


def same(first: FewShotClassifier, second: FewShotClassifier, x: np.ndarray) -> bool:
    attributes = ("label_trust_", "suggested_labels_", "classes_")
    return (
        (first.predict_proba(x) == second.predict_proba(x)).all()
        and (first.predict(x) == second.predict(x)).all()
        and all((getattr(first, one) == getattr(second, one)).all() for one in attributes)
        and first.noise_ == second.noise_
    )


@pytest.mark.parametrize("head", HEADS)
def test_a_loaded_classifier_answers_the_same(head: str, tmp_path: Path) -> None:
    data = blobs(wrong=1)
    fitted = FewShotClassifier(head=head, reject=0.1).fit(data.x, data.y)
    fitted.save(tmp_path / "m.safetensors")
    loaded = FewShotClassifier.load(tmp_path / "m.safetensors")
    assert same(fitted, loaded, blobs(spread=2, seed=3).x)
    more = blobs(way=6, seed=9)
    assert same(fitted.partial_fit(more.x, more.y), loaded.partial_fit(more.x, more.y), more.x)
    loaded.fit(data.x, data.y).save(tmp_path / "again.safetensors")


@pytest.mark.parametrize(
    "labels",
    [np.arange(24) // 6, np.arange(24) // 6 * 1.0, np.arange(24) > 11, np.array(list("ab") * 12, dtype=object)],
)
def test_labels_keep_their_type(labels: np.ndarray, tmp_path: Path) -> None:
    data = blobs()
    fitted = FewShotClassifier().fit(data.x, labels)
    fitted.save(tmp_path / "m.safetensors")
    loaded = FewShotClassifier.load(tmp_path / "m.safetensors")
    assert same(fitted, loaded, data.x)
    assert loaded.classes_.dtype == fitted.classes_.dtype


def test_a_backbone_of_your_own_is_given_again(tmp_path: Path) -> None:
    data, file = blobs(), tmp_path / "m.safetensors"
    doubled = FunctionBackbone(lambda x: torch.cat([x, x], 1), name="doubled")
    fitted = FewShotClassifier(doubled).fit(data.x, data.y)
    fitted.save(file)
    assert same(fitted, FewShotClassifier.load(file, doubled), data.x)
    with pytest.raises(ConfigError, match="a backbone of your own"):
        FewShotClassifier.load(file)
    with pytest.raises(ConfigError, match="is not the one"):
        FewShotClassifier.load(file, FunctionBackbone(lambda x: x, name="other"))


def test_what_could_not_be_read_again_is_not_written(tmp_path: Path) -> None:
    class Own(Head):
        def fit(self, support: Support) -> LinearHead:
            return HEADS["mean"].fit(support)  # type: ignore[return-value]

    data, file = blobs(), tmp_path / "m.safetensors"
    with pytest.raises(ConfigError, match="`head` must be one of"):
        FewShotClassifier(head=Own()).fit(data.x, data.y).save(file)
    with pytest.raises(ConfigError, match="surrogate"):
        FewShotClassifier().fit(data.x, ["a\udcff"] * 12 + ["b"] * 12).save(file)
    with pytest.raises(ConfigError, match="its classes have too large numbers"):
        FewShotClassifier().fit(data.x, np.arange(24, dtype=np.uint64) // 12 + 2**63).save(file)
    with pytest.raises(ConfigError, match=r"labels of type datetime64\[D\] cannot be saved"):
        FewShotClassifier().fit(data.x, (np.arange(24) // 12).astype("datetime64[D]")).save(file)
    assert not file.exists()


@pytest.fixture
def model(tmp_path: Path) -> Path:
    data = blobs()
    FewShotClassifier(reject=0.1).fit(data.x, data.y).save(tmp_path / "m.safetensors")
    return tmp_path / "m.safetensors"


def refused(file: Path) -> str:
    with pytest.raises(RunError) as error:
        FewShotClassifier.load(file)
    message = str(error.value)
    assert str(file) in message
    assert "\n" not in message
    assert len(message) < 1000
    return message


def test_damage_is_noticed_everywhere(model: Path) -> None:
    data = model.read_bytes()
    rng = np.random.default_rng(0)
    for length in (0, 5, 8, 9, 100, len(data) // 2, len(data) - 1):
        model.write_bytes(data[:length])
        refused(model)
    for place in rng.integers(0, len(data), 60):
        changed = bytearray(data)
        changed[place] ^= 1 << int(rng.integers(8))
        model.write_bytes(changed)
        refused(model)
    model.write_bytes(data + b"x")
    refused(model)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x89PNG\r\n\x1a\n" + 100 * b"x",
        pickle.dumps({"a": 1}),
        (1 << 62).to_bytes(8, "little") + b'{"a": 1}',
        (20).to_bytes(8, "little") + b"{" * 20,
        (4).to_bytes(8, "little") + b"[[]]",
        safetensors.torch.save({"a": torch.zeros(3)}),
        safetensors.torch.save({"a": torch.zeros(3)}, {"format": "pt"}),
    ],
)
def test_foreign_files_are_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "m").write_bytes(content)
    assert "is not a model" in refused(tmp_path / "m")


def test_missing_large_and_special_files_are_refused(tmp_path: Path) -> None:
    assert "No such file" in refused(tmp_path / "missing")
    assert "not a regular file" in refused(tmp_path)
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(3 << 30)
    assert "too large" in refused(tmp_path / "sparse")


def changed(model: Path, **entries: Any) -> None:
    """Write the model with other entries of its description, and with a checksum that is right."""
    content = read_model(model)
    description = json.loads(content.description) | entries
    write_model(model, ModelFile(json.dumps(description), content.tensors))


@pytest.mark.parametrize(
    ("entries", "problem"),
    [
        ({"classes": []}, "at least one"),
        ({"classes": ["b", "a", "c", "d"]}, "sorted"),
        ({"classes": ["a", "a", "c", "d"]}, "differ"),
        ({"classes": [1, 2, 3, 4]}, "text was expected"),
        ({"labels": "integers"}, "invalid literal"),
        ({"labels": "integers", "classes": ["9" * 30]}, "too large"),
        ({"classes": ["a", "b", "c"]}, "among the classes|shape"),
        ({"classes": "abcd"}, "a list was expected"),
        ({"labels": "pickles"}, "pickles"),
        ({"head": {"kind": "os.system", "settings": {}}}, "no head os.system"),
        ({"head": {"kind": "Trust", "settings": {"ridge": -1}}}, "ridge"),
        ({"head": {"kind": "Trust", "settings": {"evil": 1}}}, "evil"),
        ({"head": 3}, "object was expected"),
        ({"noise": "much"}, "number"),
        ({"card": {}}, "missing"),
        ({"surplus": 1}, "surplus"),
        ({"unknown": ["x"]}, "text was expected"),
    ],
)
def test_descriptions_that_make_no_sense_are_refused(model: Path, entries: dict[str, Any], problem: str) -> None:
    changed(model, **entries)
    message = refused(model)
    assert re.search(problem, message), message


@pytest.mark.parametrize(
    ("name", "tensor"),
    [
        ("support.features", torch.zeros(24)),
        ("support.features", torch.full((24, 32), torch.nan)),
        ("support.features", torch.zeros(24, 32, dtype=torch.float64)),
        ("support.features", torch.zeros(0, 32)),
        ("support.labels", torch.full((24,), 4)),
        ("support.labels", torch.full((24,), -1)),
        ("support.suggested", torch.zeros(3, dtype=torch.int64)),
        ("head.weight", torch.zeros(4, 31, dtype=torch.float64)),
        ("head.weight", torch.full((4, 32), torch.nan, dtype=torch.float64)),
        ("head.bias", torch.full((4,), torch.inf, dtype=torch.float64)),
        ("rejection.nearest", torch.zeros(1)),
    ],
)
def test_tensors_of_a_wrong_form_are_refused(model: Path, name: str, tensor: torch.Tensor) -> None:
    content = read_model(model)
    write_model(model, content._replace(tensors=content.tensors | {name: tensor}))
    assert "is damaged" in refused(model)


def test_a_head_does_not_learn_again_with_the_settings_of_a_file(model: Path) -> None:
    changed(model, head={"kind": "Rnnp", "settings": {"share": 0.8, "rounds": 10**12}})
    content = read_model(model)
    write_model(model, content._replace(tensors={k: v for k, v in content.tensors.items() if k != "head.weight"}))
    assert "no tensor head.weight" in refused(model)


def test_features_of_another_length_are_refused(tmp_path: Path) -> None:
    """The head nearest-neighbours has no weights whose shape would tell."""
    data, lengths = blobs(), iter((5, 6, 6, 6))
    backbone = FunctionBackbone(lambda x: x[:, : next(lengths)], None, "name")
    model = FewShotClassifier(backbone, head="nearest-neighbours").fit(data.x, data.y)
    for use in (model.predict, model.p_value, lambda x: model.partial_fit(x, data.y)):
        with pytest.raises(ConfigError, match="6 features; the classifier learnt from 5"):
            use(data.x)


def test_another_version_is_refused(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eigen_reptile.practice.model_file.VERSION", 2)
    assert "another version" in refused(model)
