"""Access: every operation on a session or an exchange first checks that it is the user's, and notes who they are."""

from agentic_backend.auth.user import User
from agentic_backend.errors import ExchangeNotFound, SessionNotFound
from agentic_backend.stores.base import Store
from agentic_backend.stores.records import ExchangePolicy, ExchangeRecord, SessionRecord


async def owned_session(store: Store, user_id: str, session_id: str) -> SessionRecord:
    """The user's session. Raises SessionNotFound if there is none or it is another user's."""
    session = await store.get_session(session_id)
    if session is None or session.user_id != user_id:
        raise SessionNotFound
    return session


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
