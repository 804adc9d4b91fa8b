"""The client's REST calls: sessions, attachments, feedback, exports, shares, trust."""

import pytest
from support.attached_files import a_png

from agentic_backend.client import Chat, NotFound, Refused


async def test_the_rest_calls_are_typed(ann: Chat) -> None:
    assert {"assistant", "echo"} <= {agent.id for agent in await ann.rest.agents()}
    sessions = [await ann.rest.open_session("echo", title=f"Number {number}") for number in range(3)]
    listed = [session.title async for session in ann.rest.sessions(agent_id="echo", text="Number")]
    assert sorted(listed) == ["Number 0", "Number 1", "Number 2"]
    renamed = await ann.rest.rename_session(sessions[0].id, "Renamed")
    assert renamed.title == "Renamed" == (await ann.rest.session(sessions[0].id)).title
    assert not await ann.rest.cancel_session(sessions[0].id)
    await ann.rest.complete_session(sessions[0].id)
    assert (await ann.rest.session(sessions[0].id)).state == "completed"
    await ann.rest.delete_session(sessions[1].id)
    with pytest.raises(NotFound):
        await ann.rest.session(sessions[1].id)
    with pytest.raises(NotFound):
        await ann.rest.session("../agents?x=/")


async def test_many_pages_of_sessions_are_one_list(ann: Chat) -> None:
    opened = {(await ann.rest.open_session("echo")).id for _ in range(60)}
    assert {session.id async for session in ann.rest.sessions()} == opened


async def test_files_are_attached_to_an_ask(ann: Chat) -> None:
    image, text = await ann.rest.upload("a.png", a_png()), await ann.rest.upload("a.txt", b"text")
    assert (image.mime, text.mime, text.text_chars) == ("image/png", "text/plain", 4)
    said = await ann.ask_text("look", attachments=[image.id, text.id])
    assert said.startswith("I see an image: image/png of ")
    assert await ann.rest.attachment(image.id) == a_png()
    with pytest.raises(Refused, match="deleted with its session"):
        await ann.rest.delete_attachment(image.id)
    unsent = await ann.rest.upload("b.txt", b"text")
    await ann.rest.delete_attachment(unsent.id)
    with pytest.raises(NotFound):
        await ann.rest.attachment(unsent.id)


async def test_answers_are_rated_and_sessions_exported_and_shared(ann: Chat) -> None:
    exchange = ann.ask("my name is Zorblax")
    await exchange.answer()
    session_id = exchange.session_id
    assert session_id is not None
    given = await ann.rest.give_feedback(session_id, 1, "down", "too short")
    assert await ann.rest.feedback(session_id) == [given] and given.comment == "too short"
    await ann.rest.withdraw_feedback(session_id, 1)
    assert await ann.rest.feedback(session_id) == []
    text = b"".join([piece async for piece in ann.rest.export_session(session_id)]).decode()
    assert "> my name is Zorblax" in text
    link = await ann.rest.share_session(session_id, expires_in_days=2)
    assert [share.id for share in await ann.rest.shares(session_id)] == [link.id]
    seen = await ann.rest.shared(link.secret)
    assert [message.rank for message in seen.messages] == [0, 1] and seen.next_after_rank is None
    await ann.rest.revoke_share(session_id, link.id)
    with pytest.raises(NotFound):
        await ann.rest.shared(link.secret)


async def test_the_trust_summary_tells_what_an_answer_rests_on(ann: Chat) -> None:
    exchange = ann.ask("what is 12*34?")
    await exchange.answer()
    summary = await ann.rest.trust(exchange.exchange_id or "")
    assert [(tool.name, tool.outcome) for tool in summary.tools] == [("calculate", "ok")]
