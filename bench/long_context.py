"""What it costs to assemble the context of a session of 10,000 messages, stored in SQLite.

Cold: everything is read from the store. Warm: the agent has the exchanges in memory. `all` gives the agent as many
exchanges as fit into the model's window, where 20 is the default.
"""

import asyncio
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from figures import median
from langchain_core.messages import HumanMessage
from scripted_graph import build

from agentic_backend.agents.agent_factory import WarmAgent
from agentic_backend.agents.agent_flow import AgentServices, GraphFlow
from agentic_backend.agents.catalog.catalog import AgentSettings
from agentic_backend.agents.models.chat_models import ChatModels
from agentic_backend.agents.runtime_context import RuntimeContext
from agentic_backend.auth.user import Tokens
from agentic_backend.exchange.past.given_history import HistoryLimits, given_history
from agentic_backend.exchange.past.recall import Memory, Recall
from agentic_backend.policy.prompt.context_window import ContextWindow
from agentic_backend.policy.prompt.token_counts import TokenCounts
from agentic_backend.protocol.messages import Channel, ExchangeStatus, Role, TokenUsage
from agentic_backend.protocol.parts import TextPart
from agentic_backend.stores.base import ExchangeEnd, Fence
from agentic_backend.stores.records import ExchangeRecord, MessageDraft, SessionRecord
from agentic_backend.stores.sqlite import SqliteStore

MESSAGES = 10_000
ROUNDS = 30
PROMPT_TOKENS = 500
WINDOWS = {"20": (128_000, 20), "all, 8k": (8_192, 10_000), "all, 128k": (128_000, 10_000)}
TEXT = "The quick brown fox jumps over the lazy dog, and nobody knows why it does so again. "


def measure() -> dict[str, float]:
    """The median time to assemble the context, in ms, by case."""
    return asyncio.run(_measure())


async def _measure() -> dict[str, float]:
    found = {}
    with tempfile.TemporaryDirectory() as directory:
        store = await SqliteStore.open(Path(directory) / "chat.sqlite3", timeout_s=60)
        try:
            session = await _long_session(store)
            for name, (tokens, exchanges) in WINDOWS.items():
                window = ContextWindow(tokens, exchanges)
                found[f"cold {name}"] = await _median(store, session, window, is_warm=False)
                found[f"warm {name}"] = await _median(store, session, window, is_warm=True)
        finally:
            await store.aclose()
    return found


async def _median(store: SqliteStore, session: SessionRecord, window: ContextWindow, *, is_warm: bool) -> float:
    times, counts = [], TokenCounts()
    memory = await Recall(store).restore(_agent(), session, session.next_rank, window.exchanges)
    # As the agent's graph leaves them: what it was given, and what it has added.
    given = given_history(memory, _limits(window, counts)).unseen
    left = Memory(window.exchanges, session.next_rank, 0, left=[*given])
    for _ in range(ROUNDS):
        warm, counts = _agent(), counts if is_warm else TokenCounts()
        warm.memory = left if is_warm else None
        began = time.perf_counter()
        limits = _limits(window, counts)
        restored = await Recall(store).restore(warm, session, session.next_rank, window.exchanges, None, limits.needed)
        history = given_history(restored, limits)
        times.append((time.perf_counter() - began) * 1000)
        assert history.left or history.unseen
    return median(times)


def _limits(window: ContextWindow, counts: TokenCounts) -> HistoryLimits:
    counter = counts.of(None)
    question = HumanMessage(TEXT, id="question")
    return HistoryLimits(window, window.room(PROMPT_TOKENS, counter.of_message(question)), counter.of_message)


def _agent() -> WarmAgent:
    async def exchange_token(access_token: str, audience: str) -> Tokens:
        raise NotImplementedError

    context = RuntimeContext(user_id="u", session_id="s", exchange_id="e", agent_id="a")
    settings = AgentSettings(id="a", class_path="bench:graph")
    flow = GraphFlow(settings, AgentServices(ChatModels({}), exchange_token), context, _GRAPH)
    return WarmAgent(("s", "a"), [flow])


_GRAPH = build(0)


async def _long_session(store: SqliteStore) -> SessionRecord:
    now = datetime.now(UTC)
    session = SessionRecord(id="s", user_id="u", agent_id="a", title="Long", created_at=now, updated_at=now)
    await store.create_session(session)
    for number in range(MESSAGES // 2):
        exchange = ExchangeRecord(
            id=f"e{number}", session_id="s", user_id="u", agent_id="a", request_id="r", started_at=now
        )
        asked, said = (
            MessageDraft(role=role, channel=Channel.FINAL, parts=[TextPart(text=TEXT)])
            for role in (Role.USER, Role.ASSISTANT)
        )
        begun = await store.begin_exchange(exchange, asked)
        end = ExchangeEnd(status=ExchangeStatus.OK, usage=TokenUsage(), last_seq=4)
        session = (await store.append(Fence("s", exchange.id, begun.session.next_rank), [said], end)).session
    return session


if __name__ == "__main__":
    for case, took_ms in measure().items():
        print(f"{case}: {took_ms:.1f} ms")
