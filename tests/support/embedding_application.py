"""An application that embeds texts: by a model of the settings, or in a worker process of its own."""

import struct
from collections.abc import Sequence

from agentic_backend.application import (
    Application,
    ApplicationSettings,
    Call,
    Frame,
    User,
    Value,
    Worker,
    WorkerEmbedder,
)

PATH = "support.embedding_application:Embedding"
OWN = "letters-2"


class Letters:
    """Embeds a text by its length, and by how many letters a it has; by odd texts it gives what are no vectors."""

    def embed(self, texts: list[str], kind: str) -> object:
        if texts[0] == "nan":
            return struct.pack("2f", float("nan"), 1.0) * len(texts)
        if texts[0] == "short":
            return b"123"
        if texts[0] == "lists":
            return [[len(text), 1.0] for text in texts]
        return b"".join(struct.pack("2f", len(text), text.count("a")) for text in texts)


class Texts(Frame):
    """Texts to embed."""

    texts: list[str]
    model: str | None = None
    kind: str = "document"
    size: int = 0


class Vectors(Value):
    """Their vectors, and what is known of them."""

    model: str
    dimensions: int
    vectors: list[list[float]]
    tokens: int
    is_estimated: bool


class Cost(Value):
    """What it would take."""

    model: str
    tokens: int
    calls: int
    cost: float | None
    currency: str | None


class Embedding(Application):
    """Embeds texts."""

    id = "embedding"
    title = "Embedding"
    version = "1"

    class Settings(ApplicationSettings):
        has_own: bool = True
        langchain: str | None = None

    def workers(self) -> Sequence[Worker]:
        if self.settings.langchain is not None:
            path = "agentic_backend.worker_processes.langchain_embeddings:LangChainEmbeddings"
            return [Worker("embedder", path, arguments={"class_path": self.settings.langchain})]
        return [Worker("embedder", "support.embedding_application:Letters", memory_mb=512)]

    def embedder(self) -> WorkerEmbedder | None:
        return WorkerEmbedder(OWN, "embedder", batch_texts=3) if self.settings.has_own else None

    def calls(self) -> Sequence[Call]:
        return [Call("POST", "/vectors", self.vectors), Call("POST", "/costs", self.cost)]

    async def vectors(self, user: User, body: Texts) -> Vectors:
        kind = body.kind
        found = await self.embed(body.texts, user=user, model=body.model, kind=kind)  # type: ignore[arg-type]
        vectors = [list(vector) for vector in found.vectors]
        return Vectors(
            model=found.model,
            dimensions=found.dimensions,
            vectors=vectors,
            tokens=found.tokens,
            is_estimated=found.is_estimated,
        )

    async def cost(self, user: User, body: Texts) -> Cost:
        found = await self.estimate_embedding(body.texts, model=body.model, size=body.size)
        return Cost(model=found.model, tokens=found.tokens, calls=found.calls, cost=found.cost, currency=found.currency)
