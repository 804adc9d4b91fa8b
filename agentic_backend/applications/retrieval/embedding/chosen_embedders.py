"""ChosenEmbedders: what embeds the documents of a collection: the built-in model, or a provider's of the settings.

Rows name what has embedded them with its version, so that those of another one are found out.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256

from agentic_backend.application import Application, BadFrame
from agentic_backend.applications.retrieval.library import OF_CONVERSATION
from agentic_backend.applications.retrieval.records import OF_USERS, Collection

_LONGEST = 120
"""In bytes: a row's index has the collection beside it."""
_BYTES_PER_TOKEN = 4


@dataclass(frozen=True, slots=True)
class Estimate:
    """What it takes to have documents embedded by a provider's model."""

    model: str
    documents: int
    tokens: int
    cost: float | None
    currency: str | None

    @property
    def told(self) -> dict[str, object]:
        """For people to read. They approve of these very figures, so what grows by a little leaves them as they are."""
        cost = "unknown" if self.cost is None else f"{max(self.cost, 0.0001):,.4f} {self.currency}"
        return {"model": self.model, "documents": self.documents, "tokens": self.tokens, "cost": cost}


class ChosenEmbedders:
    def __init__(self, application: Application, built_in: str | None, store: str | None = None) -> None:
        """`built_in` is the model beside the server; None if there is none.

        `store` is the name of the store beside the database that has the vectors of people's collections; those of a
        conversation are in the database, and go with it.
        """
        self._application = application
        self._built_in = built_in
        self._mark = f"@{store}" if store is not None else ""

    @property
    def names(self) -> Sequence[str]:
        """The models of the settings that a collection may have."""
        # Without numpy nothing is searched by vectors.
        return sorted(self._application.embedding_models()) if OF_USERS.chunks.vectors is not None else []

    def require(self, name: str | None) -> None:
        """Raises BadFrame if no collection can have this model; None is the built-in one."""
        if name is not None and name not in self.names:
            known = ", ".join(self.names) or "none"
            raise BadFrame(f"embedding: the settings have no embedding model '{name}'; there are: {known}")

    def of(self, collection: Collection) -> str | None:
        """What embeds its documents, and where their vectors are; None if nothing does now."""
        if collection.embedding is None:
            found = self._built_in
        else:
            found = next((each for each, name in self._provided().items() if name == collection.embedding), None)
        return found if found is None or collection.id == OF_CONVERSATION else found + self._mark

    def model_of(self, embedder: str) -> str | None:
        """What `embed` knows it by; None if it embeds nothing now, such as a version of before."""
        model = embedder.removesuffix(self._mark)
        return model if model == self._built_in else self._provided().get(model)

    def is_elsewhere(self, embedder: str) -> bool:
        """Whether texts leave the server to be embedded."""
        return embedder.removesuffix(self._mark) != self._built_in

    def is_external(self, embedder: str) -> bool:
        """Whether its vectors are in the store beside the database."""
        return bool(self._mark) and embedder.endswith(self._mark)

    async def estimate(self, name: str, sizes: Sequence[int]) -> Estimate:
        """For documents of so many bytes of text."""
        size = _BYTES_PER_TOKEN * _about(-(-sum(sizes) // _BYTES_PER_TOKEN))
        found = await self._application.estimate_embedding(model=name, size=size)
        return Estimate(found.model, _about(len(sizes)), found.tokens, found.cost, found.currency)

    def _provided(self) -> dict[str, str]:
        """The names of the settings' models, by what rows name them."""
        return {_row_name(name, version): name for name, version in self._application.embedding_models().items()}


def _row_name(name: str, version: str) -> str:
    whole = f"{name}:{version}"
    return whole if len(whole.encode()) <= _LONGEST else sha256(whole.encode()).hexdigest()


def _about(count: int) -> int:
    """The next number of two digits and zeros."""
    step: int = 10 ** max(0, len(str(count)) - 2)
    return -(-count // step) * step
