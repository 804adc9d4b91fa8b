"""Effective: what applies to an exchange, from the organisation's settings down to the assignment's.

Each value comes from the most specific level that has it; `sources` says which, by the value's dotted name.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class PromptText:
    """A section of the system prompt that a level adds: `name` is `assignment`, `constraints` or `guidance`."""

    name: str
    text: str = field(repr=False)
    source: str
    """Such as `assignment:essay-3`."""
    version: str
    """Changes whenever the text does."""


@dataclass(frozen=True, slots=True)
class Effective:
    model: str | None = None
    """The name of the chat model; None is the agent's."""
    chat_profile: str = "default"
    max_messages: int | None = None
    """Messages that the session's user may send."""
    max_duration_s: float | None = None
    """How long a session may last, from its beginning."""
    modules: Mapping[str, bool] = field(default_factory=dict)
    """Modules that are switched on or off, by name; all others are as modules.yaml says."""
    prompts: Sequence[PromptText] = ()
    sources: Mapping[str, str] = field(default_factory=dict)
