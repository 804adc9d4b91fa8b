"""What a graph tells beside its messages, through LangGraph's stream writer."""

from collections.abc import Mapping
from typing import Any

from agentic_backend.agents.delegation import Handoff
from agentic_backend.streaming.content import clean, plain
from agentic_backend.streaming.drafts import ActivityDraft


def activity_of(payload: Any) -> ActivityDraft:
    """The activity that a custom event is: a leader's handoff, or whatever an author has to tell of the progress."""
    if isinstance(payload, Handoff):
        return ActivityDraft("handoff", {"from": clean(payload.origin), "to": clean(payload.target)})
    return ActivityDraft("progress", plain(payload) if isinstance(payload, Mapping) else plain({"value": payload}))
