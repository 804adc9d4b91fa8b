"""An embedding model of LangChain's in a worker process, for `WorkerEmbedder`. Imported there alone."""

import importlib
from array import array
from collections.abc import Mapping
from typing import Any


class LangChainEmbeddings:
    def __init__(self, class_path: str, options: Mapping[str, Any] | None = None) -> None:
        """`class_path` is `module:name` of a class of LangChain's `Embeddings`, which is made with the `options`."""
        module, _, name = class_path.partition(":")
        self._embeddings = getattr(importlib.import_module(module), name)(**(options or {}))

    def embed(self, texts: list[str], kind: str) -> bytes:
        """The float32 numbers of the vectors, one after the other. Raises ValueError if their lengths differ."""
        if kind == "query":
            vectors = [self._embeddings.embed_query(text) for text in texts]
        else:
            vectors = self._embeddings.embed_documents(texts)
        if len(vectors) != len(texts) or len({len(vector) for vector in vectors}) > 1:
            raise ValueError("not one vector for each text, or vectors of different lengths")
        return b"".join(array("f", vector).tobytes() for vector in vectors)
