"""Titles: a session's name comes after its first answer, and nothing that happens to it touches the answer."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.hostile_modules import MADE, entry, specs
from support.log_lines import warnings_of
from support.recorded_agents import eventually, metric
from support.sessions import USER, events_of
from support.titled_sessions import TitleModel, answered, is_titled, title_model, titled_sessions

from agentic_backend.config.topics.limits import LimitsSettings
from agentic_backend.config.topics.sessions import TitlesSettings
from agentic_backend.modules.placeholders import has_placeholder
from agentic_backend.offline.model import OfflineChatModel
from agentic_backend.protocol.messages import Channel, Role, Session, utc_now
from agentic_backend.protocol.parts import TextPart
from agentic_backend.relay.log.exchange_log import ExchangeLog
from agentic_backend.sessions.asking.titles import UNNAMED, provisional_title
from agentic_backend.stores.base import SessionChange
from agentic_backend.stores.protocol.trail import AuditRecord, TrailQuery
from agentic_backend.stores.records import ExchangeRecord, MessageDraft, SessionRecord
from agentic_backend.stores.sqlite import SqliteStore

SECRET = "the secret of the person"


class Subscriber:
    def __init__(self) -> None:
        self.titles: list[str] = []

    def exchange_started(self, log: ExchangeLog) -> None:
        """Not of interest here."""

    def session_changed(self, session: Session) -> None:
        self.titles.append(session.title)


async def test_the_default_model_names_a_session_once_it_is_answered(tmp_path: Path) -> None:
    model = title_model()
    async with titled_sessions(tmp_path, model) as sessions:
        subscriber = Subscriber()
        log = await sessions.begin("hello\n  there")
        assert log.session_id is not None
        sessions.relay.session_subscriptions.add(log.session_id, subscriber, exchanges_too=False)
        [started, *_] = await events_of(log)
        assert started["session"]["title"] == "hello there"
        await eventually(lambda: subscriber.titles)
        assert subscriber.titles == ["A good name"]
        assert (await sessions.session(log.session_id)).title == "A good name"
    assert model.journal.order == ["token"] * 4 + ["title"], "after the answer, not beside it"
    [[_, prompt]] = model.journal.prompts
    assert prompt.text == "hello\n  there"


async def test_the_tokens_of_a_title_are_no_tokens_of_the_answer(tmp_path: Path) -> None:
    streaming = OfflineChatModel(words_per_second=0)
    async with titled_sessions(tmp_path, streaming) as sessions:
        session_id = await answered(sessions, "write a poem about the sea")
        async with asyncio.timeout(10):
            while (await sessions.session(session_id)).title == "write a poem about the sea":
                await asyncio.sleep(0.01)


async def test_a_session_is_named_once(tmp_path: Path) -> None:
    model = title_model()
    async with titled_sessions(tmp_path, model) as sessions:
        session_id = await answered(sessions)
        await answered(sessions, "and again", session_id=session_id)
        await answered(sessions, mode="query")
        await asyncio.sleep(0.05)
    assert len(model.journal.prompts) == 1


@pytest.mark.parametrize(("own", "title"), [(None, "A good name"), ("My own name", "My own name")])
async def test_a_session_that_was_opened_first_is_named_unless_it_has_a_name(
    tmp_path: Path, own: str | None, title: str
) -> None:
    async with titled_sessions(tmp_path, title_model()) as sessions:
        opened = await sessions.service.open(USER, None, own, "default")
        assert opened.title == (own or UNNAMED)
        await answered(sessions, session_id=opened.id)
        await is_titled(sessions, opened.id, title)


async def test_a_title_loses_against_the_name_that_the_user_has_given(tmp_path: Path) -> None:
    model = title_model()
    model.go_on.clear()
    async with titled_sessions(tmp_path, model) as sessions:
        subscriber = Subscriber()
        session_id = await answered(sessions)
        sessions.relay.session_subscriptions.add(session_id, subscriber, exchanges_too=False)
        await sessions.service.change(USER, session_id, SessionChange(title="The user's name"))
        model.go_on.set()
        await is_titled(sessions, session_id, "The user's name")
        assert subscriber.titles == ["The user's name"]


async def test_a_title_comes_too_late_for_a_deleted_session(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    model = title_model()
    model.go_on.clear()
    async with titled_sessions(tmp_path, model) as sessions:
        session_id = await answered(sessions)
        await sessions.service.delete(USER, session_id)
        model.go_on.set()
        await asyncio.sleep(0.05)
        assert await sessions.store.real.get_session(session_id) is None
    assert warnings_of(caplog.records) == []


@pytest.mark.parametrize(
    ("answer", "title"),
    [
        ('  "A quoted name."\n', "A quoted name"),
        ("two\nlines", "two lines"),
        ("half \ud83d\x00", "half \ufffd\ufffd"),
        ("<think>What is it about?</think>\n\nLakes", "Lakes"),
        ("x" * 500, "x" * 80),
        ("", "hello"),
        (' " ', "hello"),
    ],
)
async def test_a_title_is_one_short_line(tmp_path: Path, answer: str, title: str) -> None:
    async with titled_sessions(tmp_path, title_model(title=answer)) as sessions:
        session_id = await answered(sessions)
        await is_titled(sessions, session_id, title)


async def test_a_title_model_that_fails_harms_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    model = title_model(error=ValueError(SECRET))
    async with titled_sessions(tmp_path, model) as sessions:
        session_id = await answered(sessions, SECRET)
        await eventually(lambda: any(record.message == "session not named" for record in caplog.records))
        assert (await sessions.session(session_id)).title == SECRET
    assert [record.levelname for record in warnings_of(caplog.records)] == ["WARNING"]


async def test_a_store_that_is_away_harms_nothing_but_the_title(tmp_path: Path) -> None:
    async with titled_sessions(tmp_path, title_model()) as sessions:
        with sessions.store.away("name_session"):
            session_id = await answered(sessions)
            await eventually(lambda: sessions.store.refused)
        assert (await sessions.session(session_id)).title == "hello"


async def test_a_title_model_that_hangs_holds_up_neither_the_answer_nor_the_end(tmp_path: Path) -> None:
    model, limits = title_model(), LimitsSettings(titles_timeout_s=3600)
    model.go_on.clear()
    async with asyncio.timeout(30):
        async with titled_sessions(tmp_path, model, limits=limits, grace_s=3600) as sessions:
            await answered(sessions)
            await eventually(lambda: model.journal.prompts)


async def test_a_title_model_that_hangs_is_given_up(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    model, limits = title_model(), LimitsSettings(titles_timeout_s=0.05)
    model.go_on.clear()
    async with titled_sessions(tmp_path, model, limits=limits) as sessions:
        session_id = await answered(sessions)
        await eventually(lambda: caplog.records)
        assert (await sessions.session(session_id)).title == "hello"


async def test_a_session_that_was_not_named_is_named_after_its_next_exchange(tmp_path: Path) -> None:
    model = title_model(error=ValueError("away"))
    async with titled_sessions(tmp_path, model) as sessions:
        session_id = await answered(sessions, "hello")
        await eventually(lambda: "title" in model.journal.order)
        await eventually(lambda: not sessions.relay._tasks)
        model.error = None
        assert (await sessions.session(session_id)).title == "hello"
        await answered(sessions, "How are you?", session_id=session_id)
        await is_titled(sessions, session_id, "A good name")
        assert model.journal.prompts[-1][-1].text == "How are you?"


async def test_what_a_process_leaves_unnamed_the_next_one_names(tmp_path: Path) -> None:
    model = title_model()
    model.go_on.clear()
    async with titled_sessions(tmp_path, model) as sessions:
        ids = [await answered(sessions, f"hello {number}") for number in range(2)]
        await eventually(lambda: model.journal.prompts)
    async with titled_sessions(tmp_path, title_model()) as sessions:
        for session_id in ids:
            assert (await sessions.session(session_id)).unnamed
            await answered(sessions, "again", session_id=session_id)
            await is_titled(sessions, session_id, "A good name")


async def test_a_session_whose_server_crashed_is_named_when_its_exchange_is_ended(tmp_path: Path) -> None:
    store, now = await SqliteStore.open(tmp_path / "chat.sqlite3", timeout_s=5), utc_now()
    ids = {"user_id": USER.id, "agent_id": "agent"}
    session = SessionRecord(id="s", title="hello", unnamed=True, created_at=now, updated_at=now, **ids)
    exchange = ExchangeRecord(id="e", session_id="s", request_id="r", started_at=now, owner="dead", **ids)
    asked = MessageDraft(role=Role.USER, channel=Channel.FINAL, parts=[TextPart(text="hello")])
    await store.begin_exchange(exchange, asked, session)
    await store.aclose()
    async with titled_sessions(tmp_path, title_model()) as sessions:
        assert (await sessions.record("e")).status == "interrupted"
        await is_titled(sessions, "s", "A good name")


async def test_a_name_that_is_like_a_provisional_title_stays(tmp_path: Path) -> None:
    model = title_model()
    model.go_on.clear()
    async with titled_sessions(tmp_path, model) as sessions:
        opened = await sessions.service.open(USER, None, "hello", "default")
        await answered(sessions, "hello", session_id=opened.id)
        renamed = await answered(sessions, "hello")
        await sessions.service.change(USER, renamed, SessionChange(title="hello"))
        model.go_on.set()
        for session_id in (opened.id, renamed):
            await is_titled(sessions, session_id, "hello")


async def test_a_model_of_their_own_names_sessions(tmp_path: Path) -> None:
    default, small = title_model(), title_model(title="A small name")
    settings = TitlesSettings(model="small")
    async with titled_sessions(tmp_path, default, models={"small": small}, titles=settings) as sessions:
        await is_titled(sessions, await answered(sessions), "A small name")
    assert default.journal.prompts == []


async def test_sessions_are_not_named_where_that_is_off(tmp_path: Path) -> None:
    model = title_model()
    async with titled_sessions(tmp_path, model, titles=TitlesSettings(enabled=False)) as sessions:
        await is_titled(sessions, await answered(sessions, "hello\nthere"), "hello there")
    assert model.journal.prompts == []


async def test_a_blank_message_names_nothing(tmp_path: Path) -> None:
    model = title_model()
    async with titled_sessions(tmp_path, model) as sessions:
        session_id = await answered(sessions, " \n ")
        await asyncio.sleep(0.05)
        assert (model.journal.prompts, (await sessions.session(session_id)).title) == ([], UNNAMED)
        await answered(sessions, "hello", session_id=session_id)
        await is_titled(sessions, session_id, "A good name")


@pytest.mark.parametrize(
    ("message", "title"),
    [
        ("hello", "hello"),
        ("  two\n\nlines ", "two lines"),
        ("   ", UNNAMED),
        ("x" * 60, "x" * 60),
        ("x" * 61, "x" * 59 + "…"),
        ("a " * 100, "a " * 29 + "a…"),
    ],
)
def test_until_then_a_session_is_called_by_the_beginning_of_its_message(message: str, title: str) -> None:
    assert provisional_title(message) == title


@given(st.lists(st.sampled_from(["a", "bc", "long" * 15, " ", "\n", "\t ", "\u3000", "…"]), max_size=250))
def test_of_any_message_that_is_the_beginning_of_its_words(pieces: list[str]) -> None:
    words = " ".join("".join(pieces).split())
    expected = words if len(words) <= 60 else words[:59].rstrip() + "…"
    assert provisional_title("".join(pieces)) == (expected or UNNAMED)


MAIL = "ada@example.org"


def pii(strategy: str, **fields: Any) -> dict[str, Any]:
    path = "agentic_backend.modules.pii:PiiRedaction"
    return {"name": "pii", "class_path": path, "settings": {"strategy": strategy}, **fields}


async def titled_by(
    tmp_path: Path, model: TitleModel, message: str, *modules: Any, outcome: str
) -> tuple[str, list[AuditRecord]]:
    """The title of a session that begins with `message`, once its naming has this outcome, and what is audited."""
    async with titled_sessions(tmp_path, model, modules=specs(tmp_path, *modules)) as sessions:
        session_id = await answered(sessions, message)
        await eventually(lambda: metric(sessions.kpi, "chat_titles_total", outcome=outcome) == 1)
        audits = (await sessions.store.real.trail(TrailQuery(AuditRecord))).records
        return (await sessions.session(session_id)).title, audits


async def test_the_model_of_a_title_is_given_placeholders_and_people_see_the_values(tmp_path: Path) -> None:
    model = title_model(title="About {}")
    title, _ = await titled_by(tmp_path, model, f"Write to {MAIL}", pii("round_trip"), outcome="named")
    [[_, prompt]] = model.journal.prompts
    assert MAIL not in prompt.text and has_placeholder(prompt.text)
    assert title == f"About Write to {MAIL}"


@pytest.mark.parametrize("left", ["<EMAIL_00000000>", "Email_0000", "**EMAIL 0000000a**"])
async def test_a_title_with_a_placeholder_of_no_value_is_not_taken(tmp_path: Path, left: str) -> None:
    model = title_model(title=f"Mail to {left}")
    title, _ = await titled_by(tmp_path, model, f"Write to {MAIL}", pii("round_trip"), outcome="blocked")
    assert title == f"Write to {MAIL}"


async def test_words_that_only_look_like_a_placeholder_name_a_session(tmp_path: Path) -> None:
    model = title_model(title="Email feed of phone 4821")
    title, _ = await titled_by(tmp_path, model, f"Write to {MAIL}", pii("round_trip"), outcome="named")
    assert title == "Email feed of phone 4821"


async def test_a_provisional_title_shows_no_placeholder(tmp_path: Path) -> None:
    model = title_model(title="<EMAIL_00000000>")
    asked = f"What is <EMAIL_1f3a5c7e> {'x' * 80}"
    title, _ = await titled_by(tmp_path, model, asked, pii("round_trip"), outcome="blocked")
    assert title.startswith("What is … xxx")


async def test_a_title_is_redacted_like_an_answer_and_is_audited_with_its_session(tmp_path: Path) -> None:
    redacts = entry(settings={"after": "redact", "word": "good"})
    title, [audit] = await titled_by(tmp_path, title_model(), "hello", redacts, outcome="named")
    assert title == "A *** name"
    assert (audit.original, audit.action, audit.exchange_id) == ("A good name", "modified", "")


async def test_a_title_that_is_blocked_names_no_session(tmp_path: Path) -> None:
    # The agent's answer is "one two three four".
    blocks = entry(settings={"after": "block_word", "word": "good"})
    title, [audit] = await titled_by(tmp_path, title_model(), "hello", blocks, outcome="blocked")
    assert title == "hello"
    assert (audit.original, audit.action, audit.exchange_id) == ("A good name", "blocked", "")


@pytest.mark.parametrize("after", ["raise", "hang"])
@pytest.mark.parametrize(
    ("on_failure", "outcome", "named"), [("block", "blocked", "hello"), ("continue", "named", "A good name")]
)
async def test_a_module_that_fails_at_a_title_blocks_it_if_its_entry_says_so(
    tmp_path: Path, after: str, on_failure: str, outcome: str, named: str
) -> None:
    model = title_model()
    model.go_on.clear()
    fails = specs(tmp_path, entry(timeout_s=0.1, on_failure=on_failure))
    async with titled_sessions(tmp_path, model, modules=fails) as sessions:
        session_id = await answered(sessions)
        MADE[-1].settings = MADE[-1].settings.model_copy(update={"after": after})
        model.go_on.set()
        await eventually(lambda: metric(sessions.kpi, "chat_titles_total", outcome=outcome) == 1)
        assert (await sessions.session(session_id)).title == named


async def test_without_modules_a_title_passes_nothing(tmp_path: Path) -> None:
    async with titled_sessions(tmp_path, title_model(title="<EMAIL_00000000>")) as sessions:
        await is_titled(sessions, await answered(sessions), "<EMAIL_00000000>")
