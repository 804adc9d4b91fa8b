"""What modules change of an answer, as clients of OpenAI's forms get it."""

from pathlib import Path

import yaml
from support.hostile_modules import entry
from support.running_server import running_server
from transports.openai.conftest import client_of

THINKING = {"id": "thinking", "class_path": "support.openai_agents:thinking"}


async def test_a_whole_answer_has_only_the_thoughts_that_modules_have_left(tmp_path: Path) -> None:
    file = tmp_path / "modules.yaml"
    file.write_text(yaml.safe_dump({"modules": [entry(settings={"after": "redact"})]}))
    async with (
        running_server(tmp_path, agents=[THINKING], settings={"modules": {"file": str(file)}}) as server,
        client_of(server, "ann") as client,
    ):
        completion = await client.chat.completions.create(
            model="thinking", messages=[{"role": "user", "content": "hello"}]
        )
        message = completion.choices[0].message.model_dump()
        response = await client.responses.create(model="thinking", input="hello")
        [reasoning, _] = response.output
    assert (message["reasoning_content"], message["content"]) == ("my ***", "a ***")
    assert reasoning.type == "reasoning" and reasoning.summary[0].text == "my ***"
    assert response.output_text == "a ***"
