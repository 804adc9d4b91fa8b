"""ExternalVectorStore: what opens one of LangChain's vector stores, as the setting `vector_store` names it."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any

from pydantic import Field, ImportString, ValidationError, ValidationInfo, field_validator

from agentic_backend.application import ApplicationSettings

if TYPE_CHECKING:
    from langchain_core.embeddings import Embeddings
    from langchain_core.vectorstores import VectorStore


class ExternalVectorStore(ApplicationSettings):
    """The base of a class that opens a vector store. Its fields are its settings, and unknown keys are errors.

    The store is given no text: what stands in a document's place is the key of its passage. Its metadata is `index`,
    the collection and what has embedded it; its id is a UUID.
    """

    def open(self, embeddings: "Embeddings", dimensions: int) -> "AbstractAsyncContextManager[VectorStore]":
        """The store for vectors of so many numbers; it is left when the server ends.

        It is asked for when first needed, and again where that has failed. `embeddings` have to be the store's: they
        know the vectors of what is added and looked for, each of the length 1. What the store does without `async`, it
        does in a thread.
        """
        raise NotImplementedError

    def within(self, indexes: Sequence[str]) -> Mapping[str, Any]:
        """The arguments of `similarity_search` by which it finds only what has one of these as its `index`."""
        return {"filter": {"index": {"$in": list(indexes)}}}


class VectorStoreSettings(ApplicationSettings):
    """Where vectors are, if not in the database."""

    name: str = Field("external", pattern=r"^[a-z0-9-]{1,32}$")
    """Under another one all documents are embedded anew."""
    class_path: ImportString[Any]
    """`module:name` of a subclass of ExternalVectorStore, from an installed package."""
    settings: dict[str, Any] = Field(default_factory=dict, repr=False, validate_default=True)
    """Its fields."""

    @field_validator("class_path")
    @classmethod
    def _opens_one(cls, named: Any) -> Any:
        if not (isinstance(named, type) and issubclass(named, ExternalVectorStore)):
            raise ValueError("it is no subclass of ExternalVectorStore")
        return named

    @field_validator("settings")
    @classmethod
    def _fit(cls, settings: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
        kind = info.data.get("class_path")
        try:
            if kind is not None:
                kind.model_validate(settings)
        except ValidationError as error:
            # Without the values, which may be secret.
            told = (f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors(include_url=False))
            raise ValueError("; ".join(told)) from None
        return settings

    def made(self) -> ExternalVectorStore:
        kind: type[ExternalVectorStore] = self.class_path
        return kind.model_validate(self.settings)
