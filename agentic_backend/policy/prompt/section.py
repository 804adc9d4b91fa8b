"""Section: a text of a system prompt that says where it comes from."""

from dataclasses import dataclass, field
from hashlib import sha256

from agentic_backend.text.normal_form import clean


@dataclass(frozen=True, slots=True)
class Section:
    """`name` is one of `prompt_assembly.SECTIONS`; `version` changes whenever the text does."""

    name: str
    text: str = field(repr=False)
    source: str
    """Such as `agent:assistant` or `module:language_note`."""
    version: str

    @classmethod
    def of(cls, name: str, text: str, source: str) -> "Section":
        """A section whose version is a hash of its text; without lone surrogates, which no model and no store takes."""
        text = clean(text)
        return cls(name, text, source, sha256(text.encode()).hexdigest()[:12])
