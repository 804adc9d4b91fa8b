"""Access: every operation on a session or an exchange first checks that it is the user's, and notes who they are."""

from agentic_backend.auth.user import User
from agentic_backend.errors import ExchangeNotFound, SessionNotFound
from agentic_backend.protocol.messages import ChatMessage, Session
from agentic_backend.protocol.views import AttachmentView
from agentic_backend.stores.base import Store
from agentic_backend.stores.records import AttachmentState, ExchangePolicy, ExchangeRecord, SessionRecord, shown
from agentic_backend.stores.tables import ATTACHMENTS

MOST_ATTACHMENTS = 200
# Rows have the texts of files.
_PAGE = 20

PAGE_BYTES = 1024 * 1024
"""The most bytes of a page of messages, unless a single message has more."""


async def owned_session(store: Store, user_id: str, session_id: str) -> SessionRecord:
    """The user's session. Raises SessionNotFound if there is none or it is another user's."""
    session = await store.get_session(session_id)
    if session is None or session.user_id != user_id:
        raise SessionNotFound
    return session


async def owned_messages(
    store: Store, user_id: str, session_id: str, after_rank: int, limit: int
) -> tuple[Session, list[ChatMessage]]:
    """The user's session, and its messages after `after_rank`, by rank. Raises SessionNotFound.

    At most `limit` messages, and no more than fit into PAGE_BYTES, but at least one if there is any.
    """
    await owned_session(store, user_id, session_id)
    messages = await store.messages_after(session_id, after_rank, limit, PAGE_BYTES)
    # Read again: if the session still exists, no message was missing because of a deletion.
    return (await owned_session(store, user_id, session_id)).shown(), shown(messages)


async def owned_attachments(store: Store, user_id: str, session_id: str) -> list[AttachmentView]:
    """What has been sent in the user's session, its branches and where it branches off, by time.

    At most MOST_ATTACHMENTS. Raises SessionNotFound.
    """
    family_id = (await owned_session(store, user_id, session_id)).family_id
    found: list[AttachmentView] = []
    after: str | None = None
    while len(found) < MOST_ATTACHMENTS and (
        page := await store.page(ATTACHMENTS, after, _PAGE, session_id=family_id, user_id=user_id)
    ):
        # Their texts are not held for all of them.
        found += [each.shown() for each in page if each.state == AttachmentState.KEPT]
        after = page[-1].id
    return sorted(found[:MOST_ATTACHMENTS], key=lambda each: (each.created_at, each.id))


async def owned_exchange(store: Store, user_id: str, exchange_id: str) -> ExchangeRecord:
    """The user's stored exchange. Raises ExchangeNotFound if there is none or it is another user's."""
    exchange = await store.get_exchange(exchange_id)
    if exchange is None or exchange.user_id != user_id:
        raise ExchangeNotFound
    return exchange


def asked_by(user: User, policy: ExchangePolicy | None) -> ExchangePolicy:
    """`policy` with who the user is, by their token."""
    facts = {"name": user.name, "email": user.email, "roles": sorted(user.roles), "groups": sorted(user.groups)}
    return (policy or ExchangePolicy()).model_copy(update=facts)
