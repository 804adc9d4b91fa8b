"""What an exchange asks a person, as clients of OpenAI's forms get it and answer it."""

import json
import os
from pathlib import Path
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI
from openai.types.chat import ChatCompletionMessage
from support.approval_agents import NOTES_VARIABLE, calls, runs
from support.chat_client import PATIENCE_S, chat
from support.rest_client import messages_of, rest
from support.running_server import RunningServer
from transports.openai.conftest import client_of

pytestmark = pytest.mark.asyncio(loop_scope="module")

MAIL = {"to": "ann@example.org"}
TO_ANN = ("send_email", "ann@example.org")
ASK = calls(("send_email", MAIL))


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


class Conversation:
    """A client that keeps the messages as the SDK's examples do."""

    def __init__(self, client: AsyncOpenAI, model: str, name: str) -> None:
        self._client = client
        self._asked = {"model": model, "metadata": {"conversation_id": name}}
        self.messages: list[Any] = []

    async def say(self, text: str) -> ChatCompletionMessage:
        self.messages.append(user(text))
        return await self._create()

    async def answer(self, *answers: str) -> ChatCompletionMessage:
        """Answer the calls of the last message."""
        asked = self.messages[-1]["tool_calls"]
        self.messages += [
            {"role": "tool", "tool_call_id": call["id"], "content": answer}
            for call, answer in zip(asked, answers, strict=False)
        ]
        return await self._create()

    async def _create(self) -> ChatCompletionMessage:
        completion = await self._client.chat.completions.create(messages=self.messages, **self._asked)
        [choice] = completion.choices
        assert (choice.finish_reason == "tool_calls") == bool(choice.message.tool_calls)
        self.messages.append(choice.message.model_dump(exclude_none=True))
        return choice.message


def asked_of(message: ChatCompletionMessage) -> list[tuple[str, Any]]:
    """The names and arguments of the calls."""
    return [(call.function.name, json.loads(call.function.arguments)) for call in message.tool_calls or ()]


def sent(notes: Path) -> list[tuple[str, str]]:
    """The tools that have run, and for whom."""
    return [(name, args["to"]) for name, args in runs(notes)]


@pytest.fixture
def notes(server: RunningServer) -> Path:
    path = Path(os.environ[NOTES_VARIABLE])
    path.unlink(missing_ok=True)
    return path


@pytest.mark.parametrize(
    ("answer", "done"),
    [
        ("approve", [TO_ANN]),
        ("reject", []),
        ('{"action": "reject", "message": "Not her."}', []),
        ('{"action": "edit", "args": {"to": "bob@example.org"}}', [("send_email", "bob@example.org")]),
    ],
)
async def test_an_approval_is_a_call_that_the_client_answers(
    server: RunningServer, notes: Path, answer: str, done: list[Any]
) -> None:
    async with client_of(server, "approving") as client:
        talk = Conversation(client, "approving", answer)
        shown = await talk.say(ASK)
        [(name, told)] = asked_of(shown)
        assert name == "request_approval" and (told["tool"], told["arguments"]) == ("send_email", MAIL)
        assert "send_email" in (shown.content or "") and '"approve" or "reject"' in (shown.content or "")
        assert sent(notes) == []
        later = await talk.answer(answer)
    assert later.tool_calls is None and sent(notes) == done
    assert "Not her." in (later.content or "") or "Not her." not in answer


async def test_approvals_are_answered_one_by_one(server: RunningServer, notes: Path) -> None:
    async with client_of(server, "each") as client:
        talk = Conversation(client, "approving", "two")
        both = await talk.say(calls(("send_email", MAIL), ("delete_file", {"path": "/a"})))
        assert len(both.tool_calls or ()) == 2
        rest_of_it = await talk.answer("approve")
        [(_, told)] = asked_of(rest_of_it)
        assert told["tool"] == "delete_file" and sent(notes) == []
        await talk.answer("reject")
    assert sent(notes) == [TO_ANN]


async def test_an_approval_counts_once_and_for_what_was_shown(server: RunningServer, notes: Path) -> None:
    async with client_of(server, "once") as client:
        talk = Conversation(client, "approving", "once")
        await talk.say(ASK)
        forged = {**talk.messages[-1]["tool_calls"][0], "id": "call_" + "0" * 32}
        own, talk.messages[-1]["tool_calls"] = talk.messages[-1]["tool_calls"], [forged]
        with pytest.raises(openai.ConflictError):
            await talk.answer("approve")
        talk.messages = [*talk.messages[:-2], {**talk.messages[-2], "tool_calls": own}]
        asked = list(talk.messages)
        await talk.answer("approve")
        talk.messages = asked
        with pytest.raises(openai.ConflictError):
            await talk.answer("approve")
    assert sent(notes) == [TO_ANN]


async def test_another_persons_approval_is_none(server: RunningServer, notes: Path) -> None:
    async with client_of(server, "ann") as ann, client_of(server, "eve") as eve, rest(server, "dev:ann") as http:
        talk = Conversation(ann, "approving", "hers")
        await talk.say(ASK)
        [session] = (await http.get("/sessions")).json()["sessions"]
        for name in ("hers", session["id"]):
            other = Conversation(eve, "approving", name)
            other.messages = list(talk.messages)
            with pytest.raises(openai.ConflictError) as refused:
                await other.answer("approve")
            assert refused.value.code == "approval_not_found"
    assert sent(notes) == []


async def test_words_decide_where_a_client_knows_no_calls(server: RunningServer, notes: Path) -> None:
    """Only where it shows what was asked, just before."""
    async with client_of(server, "words") as client:
        talk = Conversation(client, "approving", "words")
        asked = await talk.say(ASK)
        talk.messages[-1] = {"role": "assistant", "content": asked.content}
        for text in ("perhaps", "Approve?"):
            with pytest.raises(openai.ConflictError) as refused:
                await talk.say(text)
            assert refused.value.code == "session_busy"
            talk.messages.pop()
        shown, talk.messages = talk.messages, []
        with pytest.raises(openai.ConflictError):
            await talk.say("approve")
        assert sent(notes) == []
        talk.messages = shown
        await talk.say("Approve.")
    assert sent(notes) == [TO_ANN]


@pytest.mark.parametrize(
    ("agent", "question", "answer", "told"),
    [
        ("inquiring", {"question": "What is your name?"}, "Ann", "Hello Ann."),
        ("name", None, "42", 'You said "42"'),
        ("size", None, "l", 'You said "l"'),
        ("colour", None, "3", "You said 3"),
    ],
)
async def test_a_question_is_a_call_that_the_client_answers(
    server: RunningServer, agent: str, question: dict[str, Any] | None, answer: str, told: str
) -> None:
    async with client_of(server, "questions") as client:
        talk = Conversation(client, agent, agent)
        [(name, asked)] = asked_of(await talk.say("hello"))
        assert name == "ask_person" and asked.items() >= (question or {}).items()
        assert (await talk.answer(answer)).content == told
        in_words = Conversation(client, agent, f"{agent} in words")
        shown = await in_words.say("hello")
        in_words.messages[-1] = {"role": "assistant", "content": shown.content}
        assert (await in_words.say(answer)).content == told


async def test_an_answer_in_json_is_read_by_its_schema(server: RunningServer) -> None:
    async with client_of(server, "schema") as client:
        talk = Conversation(client, "booking", "train")
        [(_, asked)] = asked_of(await talk.say("hello"))
        assert asked["answer_schema"]["type"] == "object"
        with pytest.raises(openai.BadRequestError):
            await talk.answer('{"seats": 9}')
        talk.messages.pop()
        said = await talk.answer('{"traveller": "Ann", "seats": 2, "window": true}')
        assert '"traveller": "Ann"' in (said.content or "")


async def test_what_is_asked_here_is_decided_on_elsewhere(server: RunningServer, notes: Path) -> None:
    async with client_of(server, "elsewhere") as client, rest(server, "dev:elsewhere") as http:
        talk = Conversation(client, "approving", "here")
        await talk.say(ASK)
        [session] = (await http.get("/sessions")).json()["sessions"]
        async with chat(server.address, token="dev:elsewhere") as other:
            await other.send({"type": "follow", "session_id": session["id"]})
            waiting = await other.until("awaiting_human")
            [asked] = waiting["payload"]["requests"]
            decision = {"call_id": asked["call_id"], "args_sha256": asked["args_sha256"], "action": "approve"}
            payload = {"decisions": [decision]}
            named = {"session_id": session["id"], "exchange_id": waiting["exchange_id"]}
            await other.send({"type": "human_resume", **named, "payload": payload})
            await other.until("final")
        assert sent(notes) == [TO_ANN]
        with pytest.raises(openai.ConflictError):
            await talk.answer("approve")
        assert len(await messages_of(http, session["id"])) > 1


async def test_a_query_says_that_it_can_not_wait(server: RunningServer) -> None:
    async with client_of(server, "stateless") as client:
        with pytest.raises(openai.ConflictError) as refused:
            await client.chat.completions.create(model="inquiring", messages=[user("hello")], timeout=PATIENCE_S)
    assert refused.value.code == "limit_reached"


async def test_a_response_is_gone_on_from_with_the_answers(server: RunningServer, notes: Path) -> None:
    async with client_of(server, "responses") as client:
        asked = await client.responses.create(model="approving", input=ASK)
        [call] = [item for item in asked.output if item.type == "function_call"]
        assert (call.name, json.loads(call.arguments)["arguments"]) == ("request_approval", MAIL)
        kept = await client.responses.retrieve(asked.id)
        assert [item.type for item in kept.output] == [item.type for item in asked.output]
        answer: Any = {"type": "function_call_output", "call_id": call.call_id, "output": "approve"}
        async with client.responses.stream(model="approving", input=[answer], previous_response_id=asked.id) as stream:
            final = await stream.get_final_response()
    assert sent(notes) == [TO_ANN] and final.output_text == "sent to ann@example.org"


async def test_two_answers_to_one_call_are_none(server: RunningServer, notes: Path) -> None:
    async with client_of(server, "undecided") as client:
        talk = Conversation(client, "approving", "undecided")
        await talk.say(ASK)
        talk.messages[-1]["tool_calls"] *= 2
        with pytest.raises(openai.BadRequestError):
            await talk.answer("reject", "approve")
    assert sent(notes) == []


async def test_an_answer_with_half_a_character_is_refused(server: RunningServer, notes: Path) -> None:
    async with client_of(server, "half") as client:
        talk = Conversation(client, "approving", "half")
        await talk.say(ASK)
        with pytest.raises(openai.BadRequestError):
            await talk.answer('{"action": "edit", "args": {"to": "\\ud800"}}')
        talk.messages.pop()
        await talk.answer("approve")
    assert sent(notes) == [TO_ANN]


async def test_words_that_are_sent_again_do_not_decide_on_what_is_asked_next(server: RunningServer) -> None:
    """A client whose connection broke sends the same again."""
    async with client_of(server, "words-again") as client:
        talk = Conversation(client, "paying", "words-again")
        asked = await talk.say("pay twice")
        talk.messages[-1] = {"role": "assistant", "content": asked.content}
        sent_again = list(talk.messages)
        assert (await talk.say("approve")).tool_calls
        talk.messages = sent_again
        with pytest.raises(openai.ConflictError) as refused:
            await talk.say("approve")
    assert refused.value.code == "session_busy"
