"""SessionOrchestrator: what a turn says of a session that it opens is kept with that session."""

from support.sessions import Sessions

from agentic_backend.stores.records import Parent


async def test_a_turn_that_opens_a_session_gives_it_its_scope_and_its_parent(sessions: Sessions) -> None:
    events = await sessions.ask("hi", agent_id="echo", scope={"assignment": "a1"}, parent=Parent("other", 4))
    session = await sessions.session(events[-1]["session_id"])
    assert (session.scope, session.parent) == ({"assignment": "a1"}, Parent("other", 4))
    assert not {"scope", "parent"} & events[-1]["session"].keys()
    await sessions.ask("again", session_id=session.id, scope={"assignment": "a2"})
    assert (await sessions.session(session.id)).scope == {"assignment": "a1"}
