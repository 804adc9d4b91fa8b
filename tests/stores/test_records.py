"""What is shown of a row, and what is not."""

from dataclasses import replace
from typing import Any

import pytest

from agentic_backend.protocol.messages import Channel, ChatMessage, MessageMetadata, Parent, Role, Session
from agentic_backend.protocol.parts import TextPart
from agentic_backend.stores.records import MessageDraft, place
from agentic_backend.stores.tables import MESSAGES
from tests.stores.samples import EPOCH, a_session, answer

PRIVATE = {"active_owner", "scope", "lineage", "inner", "reached", "block"}


def test_of_a_session_its_owner_scope_and_lineage_are_not_shown() -> None:
    private = {"active_owner": "instance", "scope": {"class": "7b"}, "lineage": [Parent(session_id="s", rank=2)]}
    session = a_session(active_exchange_id="e", ended_at=EPOCH, **private)
    shown = session.shown()
    assert isinstance(shown, Session)
    assert shown == replace(session, active_owner=None, scope={}, lineage=[]).shown()
    assert PRIVATE.isdisjoint(shown.model_dump()) and shown.active_exchange_id == "e"


def test_of_a_message_what_reached_the_root_graph_is_not_shown() -> None:
    draft = replace(answer(), inner=3, reached=[1, 2], metadata=MessageMetadata(extras={"agent": "sentinel"}))
    [message] = place([draft], session_id="s", exchange_id="e", next_rank=7, at=EPOCH, blocks=[5])
    assert (message.inner, message.reached, message.block) == (3, [1, 2], 5)
    shown = message.shown()
    assert isinstance(shown, ChatMessage)
    assert PRIVATE.isdisjoint(shown.model_dump()) and shown.metadata.extras == {"agent": "sentinel"}
    assert (shown.rank, shown.parts, shown.timestamp) == (7, draft.parts, EPOCH)


@pytest.mark.parametrize("marks", [{"inner": 0}, {"reached": [4]}, {"inner": 2, "reached": [0, 1]}, {}])
def test_the_marks_of_an_older_server_s_row_are_read_and_not_shown(marks: dict[str, Any]) -> None:
    metadata = MessageMetadata(extras={"agent": "sentinel"} | marks)
    [message] = place([replace(answer(), metadata=metadata)], session_id="s", exchange_id="e", next_rank=0, at=EPOCH)
    row = {name: value for name, value in MESSAGES.row(message).items() if name not in PRIVATE}
    read = MESSAGES.record_of(row)
    assert (read.inner, read.reached) == (marks.get("inner"), marks.get("reached", []))
    assert read.shown().metadata.extras == {"agent": "sentinel"}


def test_messages_get_ranks_without_gap_from_the_one_that_is_next() -> None:
    drafts = [MessageDraft(role=Role.USER, channel=Channel.FINAL, parts=[TextPart(text=str(n))]) for n in range(3)]
    placed = place(drafts, session_id="s", exchange_id="e", next_rank=7, at=EPOCH)
    assert [message.rank for message in placed] == [7, 8, 9]
    assert [message.parts for message in placed] == [draft.parts for draft in drafts]
    assert {(message.session_id, message.exchange_id, message.timestamp) for message in placed} == {("s", "e", EPOCH)}
    assert place([], session_id=None, exchange_id="e", next_rank=0, at=EPOCH) == []
