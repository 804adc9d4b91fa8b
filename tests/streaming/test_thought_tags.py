"""What a model writes in `<think>` before its answer is a thought, wherever its provider cuts the stream."""

from typing import Any

import pytest
from langchain_core.messages import AIMessageChunk
from streaming.test_chunk_texts import WAYS, answered, texts

SAID = "\n<think>I ponder.</think>\n\nIt is 4."
TOLD = [("thought", "I ponder."), ("final", "It is 4.")]


def shown(transcript: Any) -> list[tuple[str, str]]:
    return [(str(channel), text) for channel, text in transcript.told]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("size", [1, 2, 3, 5, 100])
async def test_a_thought_in_tags_is_a_thought(way: Any, size: int) -> None:
    pieces = [SAID[place : place + size] for place in range(0, len(SAID), size)]
    message, transcript = await answered(way, lambda: texts(*pieces))
    assert (message.text, message.additional_kwargs) == ("It is 4.", {"reasoning_content": "I ponder."})
    assert shown(transcript) == TOLD


async def test_so_it_is_without_streaming() -> None:
    message, transcript = await answered(WAYS[0], lambda: texts(SAID), streams=False)
    assert (message.text, shown(transcript)) == ("It is 4.", TOLD)


@pytest.mark.parametrize("way", WAYS[:2])
@pytest.mark.parametrize(
    ("pieces", "thought", "text"),
    [
        (["<think>I pon", "der.</th"], "I ponder.</th", ""),
        (["<thi"], "", "<thi"),
        (["<", "b>bold</b>"], "", "<b>bold</b>"),
        (["Write <think>", "x</think>"], "", "Write <think>x</think>"),
        (["<think></think>", "4"], "", "4"),
        (["  ", "\n", "4"], "", "  \n4"),
        (["<think>a", "</think>", " ", "<think>b</think>"], "a", "<think>b</think>"),
    ],
)
async def test_what_is_no_whole_thought_before_an_answer_stays(
    pieces: list[str], thought: str, text: str, way: Any
) -> None:
    message, _ = await answered(way, lambda: texts(*pieces))
    assert (message.additional_kwargs.get("reasoning_content", ""), message.text) == (thought, text)


async def test_where_a_provider_tells_thoughts_apart_tags_are_text() -> None:
    def chunks() -> list[AIMessageChunk]:
        return [AIMessageChunk("", additional_kwargs={"reasoning_content": "Hm."}), *texts("<think>", "x</think>")]

    message, _ = await answered(WAYS[1], chunks)
    assert (message.additional_kwargs["reasoning_content"], message.text) == ("Hm.", "<think>x</think>")
