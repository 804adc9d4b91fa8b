"""Inserts large sessions directly into the SQLite file of a server that is not running."""

from contextlib import aclosing
from pathlib import Path

from agentic_backend.stores.sqlite import SqliteStore
from tests.stores.samples import a_session, an_end, an_exchange, answer, begin, fence_after, question

MIB = 1024 * 1024
_TEXT_BYTES = 64 * 1024


async def fill(path: Path, user_id: str, *, sessions: int, mib_each: float, exchanges_each: int = 1) -> list[str]:
    """Insert sessions of the user with `mib_each` MiB of answers each; return their ids."""
    path.parent.mkdir(parents=True, exist_ok=True)
    async with aclosing(await SqliteStore.open(path, timeout_s=60)) as store:
        text = ("The quick brown fox jumps over the lazy dog. " * (_TEXT_BYTES // 45 + 1))[:_TEXT_BYTES]
        answers = int(mib_each * MIB / _TEXT_BYTES / exchanges_each)
        made = [a_session(user_id, title=f"Large {number}") for number in range(sessions)]
        for session in made:
            await store.create_session(session)
            for _ in range(exchanges_each):
                fence = await begin(store, session)
                await store.append(fence, [answer(text)] * answers, an_end())
    return [session.id for session in made]


async def fill_with_talk(path: Path, user_id: str, *, exchanges: int) -> str:
    """Insert a session of the user with so many questions and answers, of different lengths; return its id."""
    path.parent.mkdir(parents=True, exist_ok=True)
    async with aclosing(await SqliteStore.open(path, timeout_s=60)) as store:
        session = a_session(user_id, title="A long talk")
        await store.create_session(session)
        for number in range(exchanges):
            asked = an_exchange(session)
            written = await store.begin_exchange(asked, question(f"Question {number}"))
            text = f"Answer {number}.\n\n" + "\n\n".join(
                f"**Paragraph** {place} of `many`." for place in range(number % 9)
            )
            await store.append(fence_after(written, asked.id), [answer(text)], an_end())
    return session.id
