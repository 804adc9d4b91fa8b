"""Embeddings of LangChain's that give an odd text a longer vector."""

from langchain_core.embeddings import Embeddings


class UnevenEmbeddings(Embeddings):
    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        return [1.0, 0.5, 0.0] if text == "uneven" else [1.0, 0.5]
