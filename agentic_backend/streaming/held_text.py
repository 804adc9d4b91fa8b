"""A text that is held back because it may be the final of its exchange."""

from collections.abc import Sequence
from typing import NamedTuple

from agentic_backend.protocol.messages import Channel
from agentic_backend.streaming.drafts import CompleteDraft


class HeldText(NamedTuple):
    """One that a node `handed_over` is the better answer.

    `keys` are those of its message (see Reach), None where the root graph has handed it over.
    """

    draft: CompleteDraft
    message_id: str | None
    handed_over: bool
    keys: Sequence[object] | None


def as_observation(draft: CompleteDraft) -> CompleteDraft:
    """The message of a text that is not the final."""
    return draft._replace(message=draft.message.model_copy(update={"channel": Channel.OBSERVATION}))
