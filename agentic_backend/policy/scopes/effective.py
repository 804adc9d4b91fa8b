"""Effective: what applies to an exchange, from the organisation's settings down to the assignment's.

Each value comes from the most specific level that has it; `levels` says what the others would have had it be.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from agentic_backend.errors import AssignmentClosed, AssignmentNotOpen
from agentic_backend.policy.prompt.section import Section


@dataclass(frozen=True, slots=True)
class LevelValue:
    """A value that one level sets, and its place."""

    level: str
    """`server`, `organisation`, `agent`, `class`, `task` or `assignment`."""
    id: str | None
    """The id of the organisation, the agent and so on; None for the server."""
    value: Any = field(repr=False)
    file: str | None = None
    """The name of the file that sets it, without its directory."""
    line: int | None = None


@dataclass(frozen=True, slots=True)
class Effective:
    model: str | None = None
    """The name of the chat model; None is the server's default one."""
    chat_profile: str = "default"
    max_messages: int | None = None
    """Messages that the session's user may send."""
    max_duration_s: float | None = None
    """How long a session may last, from its beginning."""
    available_at: datetime | None = None
    """When the assignment opens."""
    closes_at: datetime | None = None
    """When the assignment closes."""
    modules: Mapping[str, bool] = field(default_factory=dict)
    """Modules that are switched on or off, by name; all others are as modules.yaml says."""
    prompts: Sequence[Section] = ()
    levels: Mapping[str, Sequence[LevelValue]] = field(default_factory=dict, repr=False)
    """Who sets each value, by its dotted name, such as `limits.max_messages`; the last one is the one that applies."""

    @property
    def limits_sessions(self) -> bool:
        return self.max_messages is not None or self.max_duration_s is not None

    def check_open(self, at: datetime) -> None:
        """Raise AssignmentNotOpen, with the time until it opens, or AssignmentClosed."""
        if self.available_at is not None and at < self.available_at:
            wait_s = (self.available_at - at).total_seconds()
            raise AssignmentNotOpen(f"The assignment opens at {_shown(self.available_at)}.", retry_after_s=wait_s)
        if self.closes_at is not None and at >= self.closes_at:
            raise AssignmentClosed(f"The assignment has closed at {_shown(self.closes_at)}.")


def _shown(time: datetime) -> str:
    return time.isoformat(sep=" ", timespec="minutes")
