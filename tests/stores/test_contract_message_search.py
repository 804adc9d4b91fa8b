"""Searching the messages of a user's sessions, on every store."""

from typing import Any

from agentic_backend.protocol.messages import Channel, Role
from agentic_backend.protocol.parts import TextPart, text_of
from agentic_backend.stores.base import Store
from agentic_backend.stores.protocol.message_search import MessageSearch
from agentic_backend.stores.records import MessageDraft, SessionRecord
from tests.stores.samples import a_session, an_end, an_exchange, fence_after


def said(text: str, channel: Channel = Channel.FINAL, role: Role = Role.ASSISTANT) -> MessageDraft:
    return MessageDraft(role=role, channel=channel, parts=[TextPart(text=text)])


async def talk(store: Store, user_id: str, *drafts: MessageDraft) -> SessionRecord:
    """A session of the user's with one exchange of these messages."""
    session = a_session(user_id=user_id)
    exchange = an_exchange(session)
    written = await store.begin_exchange(exchange, said("Hello?", role=Role.USER), session)
    await store.append(fence_after(written, exchange.id), list(drafts), an_end())
    return session


async def found(store: Store, user_id: str, *words: str, **search: Any) -> list[tuple[str, str]]:
    messages = await store.find_messages(MessageSearch(user_id, words, **search))
    return [(message.session_id or "", text_of(message.parts)) for message in messages]


async def test_all_words_count_in_any_case_and_order(store: Store) -> None:
    session = await talk(store, "ann", said("Leaves turn LIGHT into sugar. Straße"), said("Light only"))
    assert await found(store, "ann", "sugar", "light") == [(session.id, "Leaves turn LIGHT into sugar. Straße")]
    assert len(await found(store, "ann", "light")) == 2
    assert len(await found(store, "ann", "STRASSE")) == 1
    assert await found(store, "ann", "light", "nowhere") == []


async def test_signs_of_patterns_are_plain_text(store: Store) -> None:
    session = await talk(store, "ann", said("50% of a.b*c\x00d"))
    for word in ("50%", "a.b*", "\x00d"):
        assert await found(store, "ann", word) == [(session.id, "50% of a.b*c\x00d")]
    assert await found(store, "ann", "a_b") == []


async def test_only_the_user_s_own_other_sessions_are_searched(store: Store) -> None:
    own = await talk(store, "ann", said("light"))
    current = await talk(store, "ann", said("light"))
    await talk(store, "bob", said("light"))
    assert await found(store, "ann", "light", not_session=current.id) == [(own.id, "light")]


async def test_only_what_was_said_is_found(store: Store) -> None:
    await talk(store, "ann", said("light", Channel.THOUGHT), said("light", Channel.SYSTEM_NOTE))
    assert await found(store, "ann", "light") == []
    assert [text for _, text in await found(store, "ann", "hello")] == ["Hello?"]


async def test_the_session_that_was_last_active_comes_first_and_its_last_message(store: Store) -> None:
    first = await talk(store, "ann", said("light one"), said("light two"))
    second = await talk(store, "ann", said("light three"))
    newest_first = [(second.id, "light three"), (first.id, "light two"), (first.id, "light one")]
    assert await found(store, "ann", "light") == newest_first
    assert await found(store, "ann", "light", limit=2) == newest_first[:2]


async def test_a_deleted_session_is_found_no_more(store: Store) -> None:
    session = await talk(store, "ann", said("light"))
    await store.delete_session(session.id)
    assert await found(store, "ann", "light") == []
