"""Scripted and recorded models: what they say, what they note, and what a recording refuses."""

import asyncio
import json
from pathlib import Path

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.tools import tool

from agentic_backend.testing import NotRecorded, RecordedModel, ScriptedModel, ScriptEnded, Turn, call


@tool
def look_up(word: str) -> str:
    """Look a word up."""
    return f"about {word}"


async def streamed(model: RecordedModel | ScriptedModel, *messages: BaseMessage) -> AIMessage:
    """What the model streams, added up."""
    said = None
    async for chunk in model.bind_tools([look_up]).astream(list(messages)):
        said = chunk if said is None else said + chunk  # type: ignore[operator]
    assert isinstance(said, AIMessage)
    return said


async def test_a_script_is_said_in_order_in_pieces_and_not_further() -> None:
    model = ScriptedModel(
        "one two", [call("look_up", word="a"), call("look_up", word="b")], lambda heard: heard[-1].text
    )
    pieces = [chunk.text async for chunk in model.astream("go") if chunk.text]
    assert pieces == ["one ", "two"]
    assert [(one["name"], one["args"]) for one in (await streamed(model, HumanMessage("go"))).tool_calls] == [
        ("look_up", {"word": "a"}),
        ("look_up", {"word": "b"}),
    ]
    assert model.unsaid == 1
    assert model.invoke("said back").text == "said back"
    assert [ask.tools for ask in model.asks] == [[], ["look_up"], []]
    with pytest.raises(ScriptEnded, match="has 3 turns"):
        await model.ainvoke("go")


async def test_a_failure_comes_after_what_was_said_before_it() -> None:
    model, heard = ScriptedModel(Turn("Well,", error=TimeoutError("slow"))), []
    with pytest.raises(TimeoutError, match="slow"):
        async for chunk in model.astream("go"):
            heard.append(chunk.text)
    assert "".join(heard) == "Well,"


@pytest.mark.parametrize("streams", [True, False])
async def test_a_recording_says_the_same_again_without_the_model(tmp_path: Path, streams: bool) -> None:
    file = tmp_path / "recordings" / "words.json"
    asked = [SystemMessage("Be brief."), HumanMessage("What is a?")]
    script = ScriptedModel(Turn(calls=[call("look_up", word="a")], tokens=(3, 4)), "A letter.", streams=streams)
    recording = RecordedModel(file, script, record=True)
    first = await streamed(recording, *asked)
    assert (await recording.ainvoke(asked)).text == "A letter."

    again = RecordedModel(file)
    said = await streamed(again, *asked)
    assert (said.tool_calls, said.usage_metadata) == (first.tool_calls, first.usage_metadata)
    assert said.tool_calls[0]["args"] == {"word": "a"}
    # The id of a message differs from run to run.
    asked[-1].id = "another"
    assert again.invoke(asked).text == "A letter."
    assert (await again.ainvoke(asked)).text == "A letter."


async def test_what_is_not_recorded_is_told(tmp_path: Path) -> None:
    file = tmp_path / "words.json"
    with pytest.raises(NotRecorded, match="nothing is recorded there"):
        await RecordedModel(file).ainvoke("Hello")
    await RecordedModel(file, ScriptedModel("Hi"), record=True).ainvoke(
        [SystemMessage("Be brief."), HumanMessage("Hello")]
    )
    model = RecordedModel(file)
    with pytest.raises(NotRecorded, match=r"message 1 is \{.*Goodbye.*\}, the nearest recording has \{.*Hello"):
        await model.ainvoke([SystemMessage("Be brief."), HumanMessage("Goodbye")])
    with pytest.raises(NotRecorded, match="its messages are recorded, but with other tools"):
        await streamed(model, SystemMessage("Be brief."), HumanMessage("Hello"))
    with pytest.raises(NotRecorded, match=r"message 2 is .*, the nearest recording has none"):
        await model.ainvoke([SystemMessage("Be brief."), HumanMessage("Hello"), AIMessage("Hi")])


async def test_recording_again_replaces_the_replies_of_the_calls_made(tmp_path: Path) -> None:
    file = tmp_path / "words.json"
    recording = RecordedModel(file, ScriptedModel("one", "two", "other"), record=True)
    for asked in ("a", "a", "b"):
        await recording.ainvoke(asked)
    replay = RecordedModel(file)
    assert [(await replay.ainvoke(asked)).text for asked in "aaab"] == ["one", "two", "two", "other"]
    await RecordedModel(file, ScriptedModel("new"), record=True).ainvoke("a")
    replay = RecordedModel(file)
    assert [(await replay.ainvoke(asked)).text for asked in "aab"] == ["new", "new", "other"]
    file.write_text(json.dumps({"format": 99}))
    with pytest.raises(NotRecorded, match="record it again"):
        RecordedModel(file)
    with pytest.raises(ValueError, match="needs the model"):
        RecordedModel(file, record=True)


async def test_calls_that_run_side_by_side_are_all_recorded(tmp_path: Path) -> None:
    file, asks = tmp_path / "many.json", [f"{number} " * 2_000 for number in range(12)]
    recording = RecordedModel(file, ScriptedModel(*[f"answer {number}" for number in range(12)]), record=True)
    said = await asyncio.gather(*(recording.ainvoke(ask) for ask in asks))
    again = RecordedModel(file)
    assert [(await again.ainvoke(ask)).text for ask in asks] == [message.text for message in said]


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[]", "7", '{"format": 1}', '{"format": 2, "calls": {}}', '{"format": 1, "calls": []}'),
        *('{"format": 1, "calls": {"a": {"replies": [[{}]]}}}', "[" * 100_000),
        '{"format": 1, "calls": {"a": {"request": {"messages": []}, "replies": []}}}',
        '{"format": 1, "calls": {"a": {"request": {"messages": []}, "replies": [[]]}}}',
    ],
)
def test_a_file_that_is_no_recording_is_named_and_recorded_over(tmp_path: Path, text: str) -> None:
    file = tmp_path / "cut.json"
    file.write_text(text)
    with pytest.raises(NotRecorded, match=r"cut\.json is no recording of format 1; record it again"):
        RecordedModel(file)
    RecordedModel(file, ScriptedModel("new"), record=True).invoke("go")
    assert RecordedModel(file).invoke("go").text == "new"


def test_a_recording_whose_request_was_edited_says_so(tmp_path: Path) -> None:
    file = tmp_path / "edited.json"
    RecordedModel(file, ScriptedModel("one"), record=True).invoke("old words")
    file.write_text(file.read_text().replace("old words", "new words"))
    with pytest.raises(NotRecorded, match="as if the file had been edited"):
        RecordedModel(file).invoke("new words")


def test_a_recording_holds_no_key(tmp_path: Path) -> None:
    file = tmp_path / "bound.json"
    options = {"api_key": "sk-hunter22", "headers": {"X": "sk-hunter22"}, "extra_query": {"key": "sk-hunter22"}}
    RecordedModel(file, ScriptedModel("one"), record=True).bind(**options).invoke("go")
    assert "hunter22" not in file.read_text()
    assert RecordedModel(file).invoke("go").text == "one"
