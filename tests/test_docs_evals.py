"""docs/evals.md has every key of a file of evals, and its files run and pass as they stand there."""

import json
from pathlib import Path

import pytest
from pydantic import BaseModel
from support.documents import DOCS, blocks
from support.providers.model_server import model_server
from support.providers.reply import Reply
from support.server_process import PATIENCE_S, command

from agentic_backend.evals.eval_file import Case, Checks, JudgeCheck

PAGE = DOCS / "evals.md"
FILES = [block.text for block in blocks(PAGE) if block.language == "yaml"]
[COMMAND] = [block.text.removeprefix("agentic-backend ") for block in blocks(PAGE) if block.language == "sh"]


def rows(model: type[BaseModel]) -> list[str]:
    found = []
    for name, field in model.model_fields.items():
        default = field.get_default(call_default_factory=True)
        is_empty = field.is_required() or default in (None, ()) or isinstance(default, BaseModel)
        found.append(f"| `{name}` | {'' if is_empty else f'`{json.dumps(default)}`'} | {field.description} |")
    return found


@pytest.mark.parametrize("model", [Case, Checks, JudgeCheck])
def test_every_key_has_its_row(model: type[BaseModel]) -> None:
    assert "| key | default | what |\n|---|---|---|\n" + "\n".join(rows(model)) + "\n\n" in PAGE.read_text()


async def test_the_files_run_and_pass(tmp_path: Path) -> None:
    async with model_server() as provider:
        provider.reply = lambda messages: Reply('{"reason": "It is friendly.", "score": 5}')
        options = {"base_url": f"{provider.url}/v1", "api_key": "none", "max_retries": 0}
        environment = {
            "AGENTIC_MODELS__DEFAULT__MODEL": "offline",
            "AGENTIC_MODELS__DEFAULT__OPTIONS": '{"words_per_second": 300}',
            "AGENTIC_MODELS__SMALL__MODEL": "openai:gpt-5.4-mini",
            "AGENTIC_MODELS__SMALL__OPTIONS": json.dumps(options),
        }
        for text in FILES:
            (tmp_path / "evals.yaml").write_text(text)
            async with command(*COMMAND.split(), cwd=tmp_path, environment=environment) as process:
                status = await process.ended(2 * PATIENCE_S)
            assert status == 0, process.stdout + process.stderr
        [judged] = provider.received
    assert "The answer is friendly, and offers help." in str(judged.body)
    [case] = json.loads((tmp_path / "results.json").read_text())["cases"]
    assert (case["score"], case["checks"][-1]) == (5, {"check": "judge", "passed": True, "said": ""})
