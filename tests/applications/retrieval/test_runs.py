"""Runs: questions that are answered through the application's own door, alone and as turns of chat sessions."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio
from langchain_core.messages import BaseMessage
from pytest import mark
from services.mongodb import ON_MONGODB, fresh_database, server_url
from support.collections_of_documents import BY_WORDS, FLOOD, LEAVE, collection
from support.rest_client import error_of

from agentic_backend.application import BudgetExceeded, ModelTimeout, RecordWrite, User
from agentic_backend.applications.retrieval.application import Retrieval
from agentic_backend.applications.retrieval.runs import running_run, runs
from agentic_backend.applications.retrieval.runs.records import CHAT_TURNS, RUNS, SESSIONS, ChatSession, Run
from agentic_backend.testing import OpenedApplication, ScriptedModel, open_application
from agentic_backend.testing.opened_application import ApplicationProblems

pytestmark = mark.asyncio(loop_scope="module")

ROOT = "http://127.0.0.1"
TRUE = "Damage by groundwater is never covered [1]."
UNTRUE = "Groundwater is covered up to 90,000 euros in zone 9 [1]."
SUMMARY = "They spoke about insurance."
SETTINGS: dict[str, Any] = {
    **BY_WORDS,
    "chat_profiles": {
        "short": {"max_history_turns": 2},
        "after": {"max_history_turns": 2, "summary_position": "after_retrieval"},
        "modest": {"reserve_tokens_for_history": 0},
        "silent": {"max_history_turns": 2, "include_summary_in_context": False},
        "unmodelled": {"max_history_turns": 2, "summarization_model": "absent"},
    },
    "retrieval_profiles": {
        "staf": {"collections": ["Staff rules"]},
        "corpus": {"answer_from": "corpus_only", "modes": ["vectors"]},
        "general": {"answer_from": "general_only"},
    },
    "context_profiles": {"small": {"max_context_tokens": 420, "reserve_for_query": 50, "reserve_for_instructions": 50}},
    "judge_profiles": {"strict": {"judge": "withhold", "threshold": 0.9}},
    "workflows": {
        "staf": {"retrieval": "staf"},
        "corpus": {"retrieval": "corpus"},
        "general": {"retrieval": "general"},
        "small": {"context": "small"},
        "strict": {"judge": "strict"},
    },
}
_numbers = count()


class Speaker:
    """Says what a test wrote, and has what it was asked: system prompts and texts."""

    def __init__(self) -> None:
        self.prompts: list[tuple[str, str]] = []
        self.answer: str | Exception = TRUE
        self.summary: str | Exception = SUMMARY

    def __call__(self, messages: list[BaseMessage]) -> str | Exception:
        system, text = (str(message.text) for message in messages)
        self.prompts.append((system, text))
        return self.summary if system.startswith("You summarise conversations.") else self.answer


class Asker:
    """A person who asks, and whose documents are there."""

    def __init__(self, opened: OpenedApplication[Retrieval], client: httpx.AsyncClient, user: str) -> None:
        self.opened, self.client, self.user = opened, client, User(user, user)

    async def post(self, query: str, **more: Any) -> httpx.Response:
        return await self.client.post(f"{ROOT}/api/run", json={"query": query, **more}, timeout=60)

    async def ask(self, query: str, **more: Any) -> dict[str, Any]:
        answer = await self.post(query, **more)
        assert answer.status_code == 200, answer.text
        view: dict[str, Any] = answer.json()
        return view

    async def chat(self, *queries: str, **more: Any) -> dict[str, Any]:
        """Ask these in one session; the last answer."""
        view: dict[str, Any] = {}
        for query in queries:
            view = await self.ask(query, mode="chat", **{"session_id": view.get("session_id"), **more})
        return view

    async def session(self, session_id: str) -> dict[str, Any]:
        found = await self.client.get(f"{ROOT}/api/chat/session/{session_id}")
        assert found.status_code == 200, found.text
        session: dict[str, Any] = found.json()
        return session

    async def events(self, view: dict[str, Any]) -> dict[str, dict[str, Any]]:
        """What the stream of the run tells, by type, in its order."""
        return dict(streamed((await self.client.get(f"{ROOT}{view['sse_endpoint']}")).text))

    async def sessions(self) -> list[str]:
        return [each["session_id"] for each in (await self.client.get(f"{ROOT}/api/chat/sessions")).json()["sessions"]]


def streamed(text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for block in filter(None, text.replace("\r\n", "\n").split("\n\n")):
        fields = dict(line.split(": ", 1) for line in block.split("\n"))
        yield fields["event"], json.loads(fields["data"])


@pytest.fixture(scope="module")
def speaker() -> Speaker:
    return Speaker()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def opened(speaker: Speaker) -> AsyncIterator[OpenedApplication[Retrieval]]:
    async with open_application(Retrieval, SETTINGS, model=ScriptedModel(*[speaker] * 500)) as opened:
        yield opened


@pytest_asyncio.fixture(loop_scope="module")
async def ann(opened: OpenedApplication[Retrieval], speaker: Speaker) -> AsyncIterator[Asker]:
    user = f"ann{next(_numbers)}"
    speaker.prompts, speaker.answer, speaker.summary = [], TRUE, SUMMARY
    async with opened.client(user) as client:
        await collection(client, "Terms", flood=FLOOD)
        yield Asker(opened, client, user)


async def test_a_query_is_answered_with_its_passages_and_without_a_session(ann: Asker, speaker: Speaker) -> None:
    view = await ann.ask("Is damage by groundwater covered?")
    assert {*view} == {"run_id", "status", "history_compacted", "answer", "sse_endpoint"}
    assert (view["status"], view["sse_endpoint"]) == ("completed", f"/api/run/{view['run_id']}/stream")
    [citation] = view["answer"]["citations"]
    assert (citation["number"], citation["name"]) == (1, "flood.md") and "never covered" in citation["text"]
    assert view["answer"]["text"] == TRUE and view["answer"]["tokens_used"] == len(TRUE) // 4 + 1
    events = await ann.events(view)
    assert [*events] == ["retrieval", "fusion", "context", "generation", "judge", "run_ended"]
    assert [*events["retrieval"]["ways"]] == ["words", "graph"] and events["fusion"]["found"] > 0
    assert events["context"]["passages"][0]["name"] == "flood.md" and events["judge"]["score"] > 0.5
    assert events["run_ended"]["answer"]["text"] == TRUE
    # Alone: nothing of a session is left, nor in the prompt, whatever chat profile is named.
    again = await ann.ask("Is damage by groundwater covered?", session_id=None, chat_profile_id="short")
    assert again["answer"] == view["answer"] and await ann.sessions() == []
    assert speaker.prompts[0] == speaker.prompts[1] and "onversation" not in speaker.prompts[0][0]


async def test_a_turn_goes_through_it_all_with_the_history(ann: Asker, speaker: Speaker) -> None:
    first = await ann.chat("Is damage by groundwater covered?")
    assert (first["turn_number"], first["history_compacted"]) == (1, False)
    events = await ann.events(first)
    assert next(iter(events)) == "chat_session_created" and [*events][-2:] == ["chat_turn_added", "run_ended"]
    second = await ann.ask("And who pays?", mode="chat", session_id=first["session_id"])
    assert (second["turn_number"], second["session_id"]) == (2, first["session_id"])
    told = await ann.events(second)
    # What is looked for has the earlier question, and so something is found.
    assert told["retrieval"]["query"] == "Is damage by groundwater covered?\nAnd who pays?"
    assert told["context"]["passages"] and told["context"]["history_turns"] == 1
    system, text = speaker.prompts[-1]
    assert text == "And who pays?" and "# Conversation" in system
    assert "Person: Is damage by groundwater covered?\nYou: Damage by groundwater is never covered.\n" in system
    assert "never covered" in system.partition("# Documents")[2]

    session = await ann.session(first["session_id"])
    turns = session["history"]["turns"]
    assert [(each["turn_number"], each["query"], each["run_id"]) for each in turns] == [
        (1, "Is damage by groundwater covered?", first["run_id"]),
        (2, "And who pays?", second["run_id"]),
    ]
    assert turns[1]["tokens"] == second["answer"]["tokens_used"] + told["context"]["tokens"]
    assert session["total_tokens"] == sum(each["tokens"] for each in turns)
    assert (session["workflow_id"], session["chat_profile_id"]) == ("default_workflow", "default")
    history = session["history"]
    assert (history["summary"], history["summary_covers_turns"], history["total_turns"]) == (None, [], 2)
    # What a passage says is read where it is asked who may read it.
    assert "text" not in turns[0]["answer"]["citations"][0] and "zone 4" not in json.dumps(session)
    [listed] = (await ann.client.get(f"{ROOT}/api/chat/sessions")).json()["sessions"]
    assert listed == {key: session[key] for key in ("session_id", "created_at", "last_updated")} | {"total_turns": 2}


@mark.parametrize("quit", ["Quit", "  qUIT \n"])
async def test_quit_and_nothing_else_ends_the_session(ann: Asker, quit: str) -> None:
    session_id = (await ann.chat("Is groundwater covered?", "How do I quit this insurance? Quit"))["session_id"]
    assert (await ann.session(session_id))["history"]["total_turns"] == 2
    assert await ann.ask(quit, mode="chat", session_id=session_id) == {
        "status": "terminated",
        "session_id": session_id,
    }
    assert await ann.sessions() == []
    turns = await ann.opened.application.records_of(CHAT_TURNS).of_user(ann.user.id).find()
    assert not turns.records
    assert error_of(await ann.client.get(f"{ROOT}/api/chat/session/{session_id}"))["code"] == "not_found"
    assert (await ann.ask("Quit"))["status"] == "completed"


async def test_a_session_is_deleted_once(ann: Asker) -> None:
    session_id = (await ann.chat("Is groundwater covered?"))["session_id"]
    deleted = await ann.client.delete(f"{ROOT}/api/chat/session/{session_id}")
    assert deleted.json() == {"status": "deleted", "session_id": session_id}
    again = await ann.client.delete(f"{ROOT}/api/chat/session/{session_id}")
    assert error_of(again)["code"] == "not_found"


async def test_fifteen_turns_are_compacted(ann: Asker, speaker: Speaker) -> None:
    views = [await ann.chat("Is groundwater covered, 1?")]
    session_id = views[0]["session_id"]
    for number in range(2, 16):
        views.append(await ann.ask(f"Is groundwater covered, {number}?", mode="chat", session_id=session_id))
    assert [each["turn_number"] for each in views if each["history_compacted"]] == [12]
    events = await ann.events(views[11])
    assert events["chat_compacted"] == {"type": "chat_compacted", "session_id": session_id, "turns": [1, 2, 3, 4, 5, 6]}
    history = (await ann.session(session_id))["history"]
    assert (history["summary"], history["summary_covers_turns"]) == (SUMMARY, [1, 2, 3, 4, 5, 6])
    assert [each["turn_number"] for each in history["turns"]] == [*range(7, 16)] and history["total_turns"] == 15
    [(_, summarised)] = [each for each in speaker.prompts if each[0].startswith("You summarise")]
    assert "covered, 1?" in summarised and "covered, 6?" in summarised and "covered, 7?" not in summarised
    system = speaker.prompts[-1][0]
    assert "covered, 6?" not in system and system.index(SUMMARY) < system.index("covered, 7?")


async def test_the_history_stands_where_the_profile_says(ann: Asker, speaker: Speaker) -> None:
    prompts = {}
    for profile in ("short", "after", "silent"):
        await ann.chat(*["Is groundwater covered?"] * 4, chat_profile_id=profile)
        prompts[profile] = speaker.prompts[-1][0]
    documents = {profile: prompt.index("# Documents") for profile, prompt in prompts.items()}
    assert prompts["short"].index(SUMMARY) < documents["short"]
    assert documents["after"] < prompts["after"].index(SUMMARY) < prompts["after"].index('<turn number="3">')
    assert SUMMARY not in prompts["silent"] and '<turn number="3">' in prompts["silent"]


@mark.parametrize(
    ("profile", "said", "code"),
    [
        ("short", RuntimeError("no"), "model_error"),
        ("short", " ", "model_error"),
        ("unmodelled", SUMMARY, "agent_unavailable"),
    ],
)
async def test_where_nothing_sums_up_the_oldest_are_dropped(
    ann: Asker, speaker: Speaker, profile: str, said: str | Exception, code: str
) -> None:
    speaker.summary = said
    view = await ann.chat(*["Is groundwater covered?"] * 4, chat_profile_id=profile)
    assert (view["status"], view["history_compacted"]) == ("completed", True)
    compacted = (await ann.events(view))["chat_compacted"]
    assert (compacted["turns"], compacted["failed"]) == ([1, 2], code)
    history = (await ann.session(view["session_id"]))["history"]
    assert (history["summary"], history["summary_covers_turns"]) == (None, [])
    assert [each["turn_number"] for each in history["turns"]] == [3, 4]


async def test_a_spent_budget_costs_no_history(ann: Asker, monkeypatch: pytest.MonkeyPatch) -> None:
    session_id = (await ann.chat(*["Is groundwater covered?"] * 3, chat_profile_id="short"))["session_id"]

    async def ask_model(system: str, text: str, **more: Any) -> str:
        raise BudgetExceeded

    monkeypatch.setattr(ann.opened.application, "ask_model", ask_model)
    refused = await ann.post("Is groundwater covered?", mode="chat", session_id=session_id)
    assert error_of(refused)["code"] == "budget_exceeded"
    assert len((await ann.session(session_id))["history"]["turns"]) == 3


async def test_a_session_has_so_many_turns_and_no_more(ann: Asker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running_run, "MOST_TURNS", 1)
    session_id = (await ann.chat("Is groundwater covered?"))["session_id"]
    refused = await ann.post("Is groundwater covered?", mode="chat", session_id=session_id)
    assert error_of(refused)["code"] == "limit_reached"


async def test_a_history_beyond_the_budget_is_cut_oldest_first(ann: Asker, speaker: Speaker) -> None:
    await collection(ann.client, "More", **{f"flood{number}": FLOOD for number in range(4)})
    speaker.answer = f"{TRUE} {'The deductible is 500 euros for each event [1]. ' * 8}"
    contexts = {}
    # Of 320 tokens the history has what its profile reserves, else half.
    for profile in ("default", "modest"):
        view = await ann.chat(*["Is groundwater covered?"] * 4, workflow_id="small", chat_profile_id=profile)
        contexts[profile] = (await ann.events(view))["context"]
        assert '<turn number="1">' not in speaker.prompts[-1][0] and '<turn number="3">' in speaker.prompts[-1][0]
        assert contexts[profile]["tokens"] <= 320
    assert [(each["history_turns"], each["history_left_out"]) for each in contexts.values()] == [(2, 1), (1, 2)]
    assert contexts["modest"]["history_tokens"] <= 160 and contexts["modest"]["passages"]


async def test_what_the_judge_blocks_is_not_in_the_history(ann: Asker, speaker: Speaker) -> None:
    speaker.answer = UNTRUE
    view = await ann.chat("Is groundwater covered?", workflow_id="strict")
    assert (view["status"], view.get("turn_number"), view["answer"]["citations"]) == ("withheld", None, [])
    assert "90,000" not in json.dumps([view, await ann.events(view)])
    assert (await ann.session(view["session_id"]))["history"]["total_turns"] == 0
    speaker.answer = TRUE
    second = await ann.ask("Is groundwater covered?", mode="chat", session_id=view["session_id"], workflow_id="strict")
    assert (second["status"], second["turn_number"]) == ("completed", 1)
    assert "90,000" not in speaker.prompts[-1][0]


async def test_whoever_goes_on_with_a_query_leaves_the_session(ann: Asker) -> None:
    session_id = (await ann.chat("Is groundwater covered?"))["session_id"]
    view = await ann.ask("Is groundwater covered?", mode="query", session_id=session_id)
    assert "session_id" not in view and view["status"] == "completed"
    assert (await ann.events(view))["chat_session_terminated"]["session_id"] == session_id
    assert await ann.sessions() == []


async def test_another_users_session_and_run_are_not_found(ann: Asker, opened: OpenedApplication[Retrieval]) -> None:
    view = await ann.chat("Is groundwater covered?")
    session_id, run = view["session_id"], f"{ROOT}/api/run/{view['run_id']}"
    async with opened.client("eve") as client:
        eve = Asker(opened, client, "eve")
        refused = [
            await eve.post("Is groundwater covered?", mode="chat", session_id=session_id),
            await eve.post("Quit", mode="chat", session_id=session_id),
            await client.get(f"{ROOT}/api/chat/session/{session_id}"),
            await client.delete(f"{ROOT}/api/chat/session/{session_id}"),
            await client.get(run),
            await client.get(f"{run}/stream"),
        ]
        assert [error_of(each)["code"] for each in refused] == ["not_found"] * 6
        assert (await eve.ask("Hello?", session_id=session_id))["status"] == "completed"
    assert (await ann.session(session_id))["history"]["total_turns"] == 1
    assert (await ann.client.get(run)).json()["run"]["answer"]["text"] == TRUE


async def test_names_that_there_are_not_are_told(ann: Asker) -> None:
    for field in ("workflow_id", "chat_profile_id"):
        refused = error_of(await ann.post("Is groundwater covered?", mode="chat", **{field: "absent"}))
        assert refused["code"] == "bad_frame" and field in refused["content"] and "'absent'" in refused["content"]
    refused = error_of(await ann.post("Is groundwater covered?", mode="chat", session_id="absent"))
    assert refused["code"] == "not_found"
    assert error_of(await ann.client.get(f"{ROOT}/api/chat/profiles/absent"))["code"] == "not_found"
    with pytest.raises(ApplicationProblems, match="names the judge profile 'absent'"):
        async with open_application(Retrieval, {"workflows": {"mine": {"judge": "absent"}}}):
            pass


async def test_profiles_are_listed(ann: Asker) -> None:
    listed = (await ann.client.get(f"{ROOT}/api/chat/profiles")).json()
    shipped = {each["id"]: each for each in listed["profiles"]}
    assert listed["default_profile"] == "default" and {"default", "long_context", "compact", "short"} <= {*shipped}
    figures = [
        (
            each["compaction_threshold_tokens"],
            each["max_history_turns"],
            each["summarization_max_tokens"],
            each["reserve_tokens_for_history"],
        )
        for each in (shipped["default"], shipped["long_context"], shipped["compact"])
    ]
    assert figures == [(2000, 10, 500, 800), (4000, 20, 800, 1500), (1000, 5, 300, 500)]
    assert (await ann.client.get(f"{ROOT}/api/chat/profiles/compact")).json() == shipped["compact"]


async def test_a_workflow_says_what_is_asked(ann: Asker, speaker: Speaker) -> None:
    await collection(ann.client, "Staff rules", leave=LEAVE)
    question = "What of groundwater, and of paid leave?"
    staff = await ann.events(await ann.ask(question, workflow_id="staf"))
    assert {each["name"] for each in staff["context"]["passages"]} == {"leave.md"}
    asked = len(speaker.prompts)
    # Nothing embeds here, so a search by vectors alone finds nothing, and no model is asked.
    corpus = await ann.ask(question, workflow_id="corpus")
    assert corpus["answer"]["text"] == "I find nothing about this in the documents." and len(speaker.prompts) == asked
    # A session keeps to its workflow until another one is named.
    first = await ann.chat(question, workflow_id="corpus")
    second = await ann.ask(question, mode="chat", session_id=first["session_id"])
    assert second["answer"]["text"] == first["answer"]["text"] == corpus["answer"]["text"]
    general = await ann.events(await ann.ask(question, workflow_id="general"))
    assert general["fusion"]["found"] == 0 and "# Documents" not in speaker.prompts[-1][0]


async def test_a_run_that_fails_leaves_no_session(ann: Asker, speaker: Speaker) -> None:
    speaker.answer = RuntimeError("no")
    refused = await ann.post("Is groundwater covered?", mode="chat")
    assert error_of(refused)["code"] == "model_error"
    assert await ann.sessions() == []
    [run] = (await ann.opened.application.records_of(RUNS).of_user(ann.user.id).find()).records
    told = await ann.events({"sse_endpoint": f"/api/run/{run.key}/stream"})
    assert [*told][-2:] == ["chat_session_terminated", "run_ended"]
    assert (told["run_ended"]["status"], told["run_ended"]["error"]["code"]) == ("failed", "model_error")


async def test_of_two_turns_at_once_the_second_to_end_is_refused(ann: Asker, monkeypatch: pytest.MonkeyPatch) -> None:
    session_id = (await ann.chat("Is groundwater covered?"))["session_id"]
    both = asyncio.Barrier(2)

    async def ask_model(system: str, text: str, **more: Any) -> str:
        await both.wait()
        return TRUE

    monkeypatch.setattr(ann.opened.application, "ask_model", ask_model)
    answers = await asyncio.gather(
        *(ann.post(f"Is groundwater covered, {each}?", mode="chat", session_id=session_id) for each in "ab")
    )
    answers.sort(key=lambda each: each.status_code)
    assert (answers[0].json()["turn_number"], error_of(answers[1])["code"]) == (2, "record_conflict")
    assert (await ann.session(session_id))["history"]["total_turns"] == 2


async def test_a_run_is_followed_while_it_goes(ann: Asker, monkeypatch: pytest.MonkeyPatch) -> None:
    may_answer = asyncio.Event()

    async def ask_model(system: str, text: str, **more: Any) -> str:
        await may_answer.wait()
        return TRUE

    monkeypatch.setattr(ann.opened.application, "ask_model", ask_model)
    view = await ann.ask("Is groundwater covered?", wait=False)
    assert view["status"] == "running" and "answer" not in view
    # The door's own generator: what serves one as server-sent events is tested where that is.
    [call] = [each for each in ann.opened.application.calls() if each.path.endswith("/stream")]
    following: Any = call.handler(ann.user, view["run_id"])
    told = []
    async with asyncio.timeout(30):
        async for event in following:
            told.append(event.type)
            if event.type == "context":
                may_answer.set()
    assert told == ["retrieval", "fusion", "context", "generation", "judge", "run_ended"]
    run = (await ann.client.get(f"{ROOT}/api/run/{view['run_id']}")).json()
    assert run["run"]["status"] == "completed" and [each["type"] for each in run["events"]] == told


async def test_a_run_goes_on_when_its_client_has_gone(ann: Asker, monkeypatch: pytest.MonkeyPatch) -> None:
    is_asked, may_answer = asyncio.Event(), asyncio.Event()

    async def ask_model(system: str, text: str, **more: Any) -> str:
        is_asked.set()
        await may_answer.wait()
        return TRUE

    monkeypatch.setattr(ann.opened.application, "ask_model", ask_model)
    asking = asyncio.create_task(ann.post("Is groundwater covered?", mode="chat"))
    await asyncio.wait_for(is_asked.wait(), 30)
    asking.cancel()
    await asyncio.wait([asking])
    may_answer.set()
    [run] = (await ann.opened.application.records_of(RUNS).of_user(ann.user.id).find()).records
    assert (await ann.events({"sse_endpoint": f"/api/run/{run.key}/stream"}))["run_ended"]["status"] == "completed"
    assert (await ann.session((await ann.sessions())[0]))["history"]["total_turns"] == 1


async def test_few_runs_of_a_user_go_at_once_and_a_lost_one_has_failed(
    ann: Asker, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_answer = asyncio.Event()

    async def ask_model(system: str, text: str, **more: Any) -> str:
        await may_answer.wait()
        raise ModelTimeout

    monkeypatch.setattr(ann.opened.application, "ask_model", ask_model)
    views = [await ann.ask("Is groundwater covered?", wait=False) for _ in range(4)]
    assert error_of(await ann.post("Is groundwater covered?"))["code"] == "rate_limited"
    # As if the server had ended with it long ago.
    monkeypatch.setattr(runs, "_LOST", timedelta(0))
    told = await ann.events(views[0])
    assert (told["run_ended"]["status"], told["run_ended"]["error"]["code"]) == ("failed", "application_unavailable")
    may_answer.set()
    for view in views:
        await ann.events(view)


async def test_the_oldest_make_room(ann: Asker) -> None:
    application, long_ago = ann.opened.application, datetime(2026, 1, 1, tzinfo=UTC)
    sessions, stored = (application.records_of(kind).of_user(ann.user.id) for kind in (SESSIONS, RUNS))
    old = ChatSession(workflow_id="default_workflow", chat_profile_id="default", last_updated=long_ago)
    for batch in range(10):
        await application.write([sessions.adding(old, f"s{batch}.{each}") for each in range(100)])
        run = Run(mode="query", began_at=long_ago, status="completed")
        await application.write([stored.adding(run, f"r{batch}.{each}") for each in range(100)])
    view = await ann.chat("Is groundwater covered?")
    assert view["status"] == "completed" and view["session_id"] in await ann.sessions()
    assert len(await ann.sessions()) <= 1_000


async def test_an_expired_session_gives_way_to_a_new_one(speaker: Speaker) -> None:
    model = ScriptedModel(*[speaker] * 10)
    async with open_application(Retrieval, {"max_session_age_s": 0.001}, model=model) as opened:
        async with opened.client("ann") as client:
            ann = Asker(opened, client, "ann")
            first = await ann.chat("Hello?", workflow_id="default_workflow")
            assert error_of(await client.get(f"{ROOT}/api/chat/session/{first['session_id']}"))["code"] == "not_found"
            second = await ann.ask("Hello?", mode="chat", session_id=first["session_id"])
            assert second["session_id"] != first["session_id"] and second["turn_number"] == 1
            created = (await ann.events(second))["chat_session_created"]
            assert (created["session_id"], created["replaces"]) == (second["session_id"], first["session_id"])


async def test_the_door_can_be_closed() -> None:
    async with open_application(Retrieval, {"runs": False}) as opened, opened.client("ann") as client:
        refused = [await Asker(opened, client, "ann").post("Hello?"), await client.get(f"{ROOT}/api/chat/sessions")]
        assert [error_of(each)["code"] for each in refused] == ["not_found", "not_found"]


async def test_nothing_of_a_user_is_left(ann: Asker) -> None:
    view = await ann.chat("Is groundwater covered?")
    assert (await ann.client.delete(f"{ROOT}/agentic/v1/me")).status_code == 204
    assert await ann.sessions() == []
    assert error_of(await ann.client.get(f"{ROOT}/api/run/{view['run_id']}"))["code"] == "not_found"


@pytest_asyncio.fixture(loop_scope="module", params=["sqlite", *ON_MONGODB])
async def database(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[str]:
    """The URL of a database."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'store.db'}"
        return
    async with fresh_database(server_url(request.param, request)) as url:
        yield url


async def test_a_session_is_whole_wherever_its_server_ends(database: str, speaker: Speaker) -> None:
    """A turn that is compacted is cut off behind each of its writes: what is there then is a history without gaps."""
    async with open_application(Retrieval, SETTINGS, store=database, model=ScriptedModel(*[speaker] * 99)) as opened:
        async with opened.client("ann") as client:
            ann = Asker(opened, client, "ann")
            write = opened.app.store.write_application_records
            for allowed in range(20):
                left, session = allowed, await ann.chat(*["Hello?"] * 3, chat_profile_id="short")
                has_stopped = asyncio.Event()

                async def cut(writes: list[RecordWrite], stopped: asyncio.Event = has_stopped) -> None:
                    nonlocal left
                    if left == 0:
                        stopped.set()
                        await asyncio.Event().wait()
                    left -= 1
                    await write(writes)

                opened.app.store.write_application_records = cut  # type: ignore[method-assign, assignment]
                asking = asyncio.create_task(ann.post("Hello?", mode="chat", session_id=session["session_id"]))
                stopping = asyncio.create_task(has_stopped.wait())
                await asyncio.wait({asking, stopping}, return_when=asyncio.FIRST_COMPLETED)
                history = (await ann.session(session["session_id"]))["history"]
                numbers = [*history["summary_covers_turns"], *(each["turn_number"] for each in history["turns"])]
                assert numbers == [*range(1, history["total_turns"] + 1)]
                if asking.done():
                    assert history["total_turns"] == 4
                    return
                assert history["total_turns"] == 3
                opened.app.store.write_application_records = write  # type: ignore[method-assign]
                asking.cancel()
                await opened.application.aclose()
            raise AssertionError("it has more writes than this test looks at")
