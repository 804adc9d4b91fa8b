"""SessionOrchestrator: what a turn says of a session that it opens is kept with that session."""

from dataclasses import replace
from typing import Any

from support.sessions import USER, Sessions


async def test_a_turn_that_opens_a_session_gives_it_its_scope(sessions: Sessions) -> None:
    user = replace(USER, scope_choices={"assignment": frozenset({"a1"})})
    asked: dict[str, Any] = {
        "user": user,
        "agent_id": "echo",
        "scope": {"assignment": "a1"},
    }
    events = await sessions.ask("hi", **asked)
    session = await sessions.session(events[-1]["session_id"])
    assert session.scope == {"assignment": "a1"}
    assert "scope" not in events[-1]["session"]
    await sessions.ask("again", user=user, session_id=session.id, scope={"assignment": "a2"})
    assert (await sessions.session(session.id)).scope == {"assignment": "a1"}
