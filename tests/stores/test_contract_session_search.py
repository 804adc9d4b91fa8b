"""Searching sessions for words, with the messages that have them, on every store."""

import pytest

from agentic_backend.errors import BadFrame
from agentic_backend.protocol.messages import Channel, Role
from agentic_backend.protocol.parts import TextPart, text_of
from agentic_backend.sessions.reading.snippets import snippet_of
from agentic_backend.stores.base import SessionChange, Store
from agentic_backend.stores.protocol.session_search import FoundPage, SessionSearch
from agentic_backend.stores.records import MessageDraft, SessionRecord
from tests.stores.samples import a_session, an_end, an_exchange, fence_after, new_id


def said(text: str, channel: Channel = Channel.FINAL, role: Role = Role.ASSISTANT) -> MessageDraft:
    return MessageDraft(role=role, channel=channel, parts=[TextPart(text=text)])


async def talk(store: Store, user_id: str, *drafts: MessageDraft, title: str = "Untold") -> SessionRecord:
    """A session of the user's with one exchange of these messages."""
    session = a_session(user_id=user_id, title=title)
    exchange = an_exchange(session)
    written = await store.begin_exchange(exchange, said("Hello?", role=Role.USER), session)
    await store.append(fence_after(written, exchange.id), list(drafts), an_end())
    return session


def shown(page: FoundPage) -> list[tuple[str, list[str]]]:
    return [(each.session.id, [text_of(message.parts) for message in each.messages]) for each in page.found]


async def found(store: Store, user_id: str, *words: str) -> list[tuple[str, list[str]]]:
    page = await store.search_sessions(SessionSearch(user_id, words))
    assert page.next_cursor is None
    return shown(page)


async def test_titles_and_messages_are_found_whatever_their_case(store: Store) -> None:
    user = new_id()
    titled = await talk(store, user, said("nothing"), title="LEAVES and Light")
    texted = await talk(store, user, said("Leaves turn LIGHT into sugar. Straße"), said("light only"))
    assert await found(store, user, "light", "leaves") == [
        (texted.id, ["Leaves turn LIGHT into sugar. Straße"]),
        (titled.id, []),
    ]
    assert await found(store, user, "STRASSE") == [(texted.id, ["Leaves turn LIGHT into sugar. Straße"])]
    assert await found(store, user, "light", "nowhere") == []
    # All words in one message, or all in the title.
    assert await found(store, user, "untold", "sugar") == []


async def test_what_is_found_in_markdown_is_marked_in_its_words(store: Store) -> None:
    user = new_id()
    await talk(store, user, said("# Leaves\n\n- **Licht** in der [Straße](https://x.org/a)\n- `b`"))
    search = SessionSearch(user, ["STRASSE", "licht"])
    [each] = (await store.search_sessions(search)).found
    [message] = each.messages
    pieces = snippet_of(text_of(message.parts), search.folded_words, is_markdown=True)
    assert pieces == [("Leaves ", False), ("Licht", True), (" in der ", False), ("Straße", True), (" b", False)]


async def test_the_last_three_messages_are_shown_the_last_first(store: Store) -> None:
    user = new_id()
    session = await talk(store, user, *(said(f"light {number}") for number in range(5)))
    assert await found(store, user, "light") == [(session.id, ["light 4", "light 3", "light 2"])]


async def test_thoughts_results_and_others_texts_are_not_found(store: Store) -> None:
    user = new_id()
    await talk(store, user, said("light", Channel.THOUGHT), said("light", Channel.TOOL_RESULT, Role.TOOL))
    await talk(store, new_id(), said("light"), title="light")
    assert await found(store, user, "light") == []


async def test_signs_of_patterns_are_plain_text(store: Store) -> None:
    user = new_id()
    session = await talk(store, user, said("50% of a.b*c\x00d"))
    for word in ("50%", "a.b*", "\x00d"):
        assert await found(store, user, word) == [(session.id, ["50% of a.b*c\x00d"])]
    assert await found(store, user, "a_b") == []


async def test_pages_hold_each_session_once_archived_ones_too(store: Store) -> None:
    user = new_id()
    ids = [(await talk(store, user, said("light"))).id for _ in range(5)]
    await store.change_session(ids[2], SessionChange(archived=True))
    seen: list[str] = []
    cursor = None
    while True:
        page = await store.search_sessions(SessionSearch(user, ["light"], limit=2, cursor=cursor))
        seen += [each.session.id for each in page.found]
        if (cursor := page.next_cursor) is None:
            break
    assert seen == ids[::-1]
    whole = await store.search_sessions(SessionSearch(user, ["light"], limit=5))
    assert (len(whole.found), whole.next_cursor) == (5, None)


async def test_a_page_ends_where_its_messages_are_large(store: Store) -> None:
    user = new_id()
    ids = [(await talk(store, user, said(f"light {'x' * 600_000}"))).id for _ in range(3)]
    first = await store.search_sessions(SessionSearch(user, ["light"]))
    assert [each.session.id for each in first.found] == [ids[2], ids[1]]
    rest = await store.search_sessions(SessionSearch(user, ["light"], cursor=first.next_cursor))
    assert [each.session.id for each in rest.found] == [ids[0]] and rest.next_cursor is None


async def test_a_foreign_cursor_is_a_bad_frame(store: Store) -> None:
    with pytest.raises(BadFrame, match=r"^cursor: "):
        await store.search_sessions(SessionSearch("ann", ["light"], cursor="x"))
