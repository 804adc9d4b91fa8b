"""Random operations on a store against a model of a few lines: they answer alike, and end in the same state."""

from dataclasses import dataclass, field
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentic_backend.errors import SessionBusy, SessionCompleted, SessionNotFound
from agentic_backend.protocol.messages import ExchangeStatus, SessionState
from agentic_backend.protocol.parts import text_of
from agentic_backend.stores.base import AlreadyAsked, Fence, FencedOut, SessionQuery, Store
from agentic_backend.stores.records import SessionRecord
from tests.stores.samples import a_session, an_end, an_exchange, answer, new_id, question

SLOTS = st.integers(0, 2)
KEYS = st.sampled_from([None, "k1", "k2"])
OPERATIONS = st.one_of(
    st.tuples(st.just("create"), SLOTS),
    st.tuples(st.just("begin"), SLOTS, KEYS),
    st.tuples(st.just("begin_new"), SLOTS, KEYS),
    st.tuples(st.just("append"), SLOTS, st.integers(0, 3), st.sampled_from([0, 0, 0, -1, 1])),
    st.tuples(st.just("end"), SLOTS, st.integers(0, 2), st.sampled_from([None, b"one", b"two"])),
    st.tuples(st.just("complete"), SLOTS),
    st.tuples(st.just("delete"), SLOTS),
)


@dataclass
class Chat:
    """One session of the model: its texts by rank, and who runs in it."""

    session: SessionRecord
    texts: list[tuple[str, str]] = field(default_factory=list)
    active: str | None = None
    ended: list[str] = field(default_factory=list)
    completed: bool = False
    state: bytes | None = None


class Model:
    """At most one session in each of a few slots, all of one user; what was deleted leaves a dead id behind."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.user = new_id()
        self.chats: dict[int, Chat] = {}
        self.asked: dict[str, tuple[str, int]] = {}
        self.dead = a_session(self.user)
        self.activity: list[int] = []

    def chat(self, slot: int) -> Chat:
        return self.chats.get(slot) or Chat(self.dead)

    def touch(self, slot: int) -> None:
        self.activity = [slot, *(other for other in self.activity if other != slot)]

    async def create(self, slot: int) -> None:
        if slot not in self.chats:
            # The time of the store's rows, by which sessions are in order.
            now = self.store.now()
            self.chats[slot] = Chat(a_session(self.user, created_at=now, updated_at=now))
            await self.store.create_session(self.chats[slot].session)
            self.touch(slot)

    async def begin_new(self, slot: int, key: str | None) -> None:
        if slot not in self.chats:
            await self._begin(slot, Chat(a_session(self.user)), key, born=True)

    async def begin(self, slot: int, key: str | None) -> None:
        await self._begin(slot, self.chat(slot), key, born=False)

    async def _begin(self, slot: int, chat: Chat, key: str | None, born: bool) -> None:
        exchange = an_exchange(chat.session, client_exchange_id=key, started_at=self.store.now())
        expected: object = None
        if key in self.asked:
            expected = (AlreadyAsked, self.asked[key][0])
        elif slot not in self.chats and not born:
            expected = SessionNotFound
        elif chat.completed:
            expected = SessionCompleted
        elif chat.active is not None:
            expected = SessionBusy
        try:
            await self.store.begin_exchange(exchange, question(exchange.id), chat.session if born else None)
        except AlreadyAsked as error:
            assert (AlreadyAsked, error.exchange_id) == expected
        except (SessionNotFound, SessionCompleted, SessionBusy) as error:
            assert type(error) is expected
        else:
            assert expected is None
            self.chats[slot] = chat
            chat.active = exchange.id
            chat.texts.append((exchange.id, exchange.id))
            if key is not None:
                self.asked[key] = (exchange.id, slot)
            self.touch(slot)

    async def append(self, slot: int, size: int, skew: int) -> None:
        await self._write(slot, size, skew, None)

    async def end(self, slot: int, size: int, state: bytes | None) -> None:
        end = an_end(ExchangeStatus.STOPPED, session_state=state)
        if await self._write(slot, size, 0, end):
            chat = self.chats[slot]
            assert chat.active is not None
            chat.ended.append(chat.active)
            chat.active = None
            chat.state = chat.state if state is None else state

    async def _write(self, slot: int, size: int, skew: int, end: Any) -> bool:
        chat = self.chat(slot)
        exchange_id = chat.active or new_id()
        texts = [new_id() for _ in range(size)]
        fence = Fence(chat.session.id, exchange_id, len(chat.texts) + skew)
        try:
            written = await self.store.append(fence, [answer(text) for text in texts], end)
        except FencedOut:
            assert chat.active is None or skew != 0
            return False
        assert chat.active is not None and skew == 0
        chat.texts += [(exchange_id, text) for text in texts]
        assert written.session.next_rank == len(chat.texts)
        self.touch(slot)
        return True

    async def complete(self, slot: int) -> None:
        completed = await self.store.complete_session(self.chat(slot).session.id, self.store.now())
        assert (completed is None) == (slot not in self.chats)
        if completed is not None and not self.chats[slot].completed:
            self.chats[slot].completed = True
            self.touch(slot)

    async def delete(self, slot: int) -> None:
        await self.store.delete_session(self.chat(slot).session.id)
        if self.chats.pop(slot, None) is not None:
            self.asked = {key: asked for key, asked in self.asked.items() if asked[1] != slot}
            self.activity.remove(slot)

    async def compare(self) -> None:
        page = await self.store.list_sessions(SessionQuery(self.user))
        assert [session.id for session in page.sessions] == [self.chats[slot].session.id for slot in self.activity]
        for session, slot in zip(page.sessions, self.activity, strict=True):
            chat = self.chats[slot]
            assert (session.next_rank, session.message_count) == (len(chat.texts),) * 2
            assert session.active_exchange_id == chat.active
            assert (session.state is SessionState.COMPLETED) == chat.completed
            messages = await self.store.messages_after(session.id, -1, 1000)
            assert [message.rank for message in messages] == list(range(len(chat.texts)))
            assert [(message.exchange_id, text_of(message.parts)) for message in messages] == chat.texts
            last = [message for message in messages if message.exchange_id in chat.ended[-2:]]
            assert await self.store.last_exchanges(session.id, 2) == last
            assert await self.store.session_state(session.id) == chat.state
        for key in ("k1", "k2"):
            found = await self.store.find_exchange(self.user, key)
            assert (found and found.id) == (self.asked[key][0] if key in self.asked else None)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(operations=st.lists(OPERATIONS, max_size=40))
async def test_a_store_does_what_the_model_does(store: Store, operations: list[tuple[Any, ...]]) -> None:
    """The examples share the store, each with a user of its own."""
    model = Model(store)
    for name, *arguments in operations:
        await getattr(model, name)(*arguments)
    await model.compare()
