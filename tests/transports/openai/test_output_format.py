"""The JSON in an answer, whatever a model has written."""

import asyncio

import pytest
from support.cpu_time import takes_at_most

from agentic_backend.errors import AnswerInvalid
from agentic_backend.transports.openai.output_format import OutputFormat


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('```json\n{"a": 1}\n```\n', '{"a": 1}'),
        ('{"a": NaN}', None),
        ('{"a": -Infinity}', None),
        ("```" + "\n" * 20_000 + "x", None),
    ],
)
def test_only_json_is_json_and_is_found_at_once(text: str, found: str | None) -> None:
    output = OutputFormat()
    assert takes_at_most(1, lambda: asyncio.run(_checked(output, text, found)))


async def _checked(output: OutputFormat, text: str, found: str | None) -> None:
    if found is None:
        with pytest.raises(AnswerInvalid):
            await output.checked(text)
    else:
        assert await output.checked(text) == found
