"""What becomes of the custom events of a graph."""

from typing import Any

import pytest

from agentic_backend.agents.delegation import Handoff
from agentic_backend.streaming.transcode.activities import activity_of
from agentic_backend.streaming.transcode.drafts import ActivityDraft


@pytest.mark.parametrize(
    ("payload", "activity"),
    [
        (Handoff("team", "scout"), ActivityDraft("handoff", {"from": "team", "to": "scout"})),
        ({"done": 3}, ActivityDraft("progress", {"done": 3})),
        ({"origin": "a", "target": "b"}, ActivityDraft("progress", {"origin": "a", "target": "b"})),
        ("half", ActivityDraft("progress", {"value": "half"})),
        (None, ActivityDraft("progress", {"value": None})),
    ],
)
def test_a_handoff_is_told_as_one_and_all_else_is_progress(payload: Any, activity: ActivityDraft) -> None:
    assert activity_of(payload) == activity
