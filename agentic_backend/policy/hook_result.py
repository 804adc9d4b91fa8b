"""HookResult: what a module answers. `CONTINUE` changes nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from agentic_backend.protocol.parts import Part


@dataclass(frozen=True, slots=True, kw_only=True)
class Modifications:
    """What replaces what; None keeps it."""

    message: str | Sequence[Part] | None = field(default=None, repr=False)
    """The user's message: what is stored, shown and given to models (`chat:before_ai`)."""
    message_for_model: str | Sequence[Part] | None = field(default=None, repr=False)
    """What models are given instead of the user's message, which itself stays as it is (`chat:before_ai`)."""
    response: str | None = field(default=None, repr=False)
    """The agent's text: what is stored, shown and given to models later (`chat:after_ai`, `chat:tool_result`)."""
    keep_response_for_model: bool = False
    """Whether models are later given the text that was said, and only people the `response` (`chat:after_ai`)."""
    prompt_additions: Sequence[str] = ()
    """Guidance for the system prompt (`chat:before_ai`)."""


@dataclass(frozen=True, slots=True)
class Extraction:
    """Structured data that a module has found."""

    type: str
    data: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class Audit:
    """Why a module has changed or blocked something. The server adds the original."""

    reason: str
    patterns: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class HookResult:
    action: Literal["continue", "block"] = "continue"
    modifications: Modifications = Modifications()
    block_reason: str = ""
    """For the audit."""
    direct_response: str = field(default="", repr=False)
    """What the user is shown if the message or the answer is blocked."""
    extractions: Sequence[Extraction] = ()
    audit: Audit | None = None


CONTINUE = HookResult()


def blocked(reason: str, direct_response: str, *, patterns: Sequence[str] = ()) -> HookResult:
    """The result of a module that blocks."""
    return HookResult(
        action="block", block_reason=reason, direct_response=direct_response, audit=Audit(reason, patterns)
    )
