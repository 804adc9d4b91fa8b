"""The server as a process that uses a provider: neither its key nor what was said reaches its log."""

from pathlib import Path

import pytest
from support.chat_client import chat, check_exchange, final_text
from support.providers.model_server import model_server
from support.providers.reply import Reply
from support.server_process import serving

KEY = "a key of no known form"
QUESTION, ANSWER = 'quokkaberry "quoted"\nin two lines', "wombatfruit for you"


# At `debug` an exception is logged with the texts that it quotes.
@pytest.mark.parametrize(
    ("level", "texts"), [("info", ("quokkaberry", "quoted", "wombatfruit")), ("debug", ("wombatfruit",))]
)
async def test_neither_the_key_nor_the_texts_are_logged(tmp_path: Path, level: str, texts: tuple[str, ...]) -> None:
    async with model_server() as provider:
        environment = {
            "OPENAI_API_KEY": KEY,
            "OPENAI_BASE_URL": f"{provider.url}/v1",
            "AGENTIC_MODELS__DEFAULT__MODEL": "auto",
            "AGENTIC_MODELS__DEFAULT__OPTIONS": "{}",
        }
        async with (
            serving("--log-level", level, cwd=tmp_path, environment=environment) as server,
            chat(server.address, token="dev:alice") as client,
        ):
            provider.reply = lambda messages: Reply(ANSWER)
            events = await client.ask(QUESTION)
            check_exchange(events)
            assert final_text(events) == ANSWER
            assert provider.asked[0].headers["authorization"] == f"Bearer {KEY}"
            for status, code in ((401, "model_refused_key"), (400, "model_error")):
                # The provider's error quotes the key and the question.
                provider.reply = lambda messages, status=status: Reply(status=status)
                events = await client.ask(QUESTION, session_id=events[0]["session_id"])
                assert events[-1]["error"]["code"] == code
            assert KEY not in str(client.events)
            assert await server.stop() == 0
        said = server.stdout + server.stderr
        for secret in (KEY, "dev:alice", *texts):
            assert secret not in said
        assert "AuthenticationError" in said, "an operator sees why"
