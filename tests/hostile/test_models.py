"""A provider of models that misbehaves holds up only the exchange that asked it, and what it said before is kept."""

import time
from pathlib import Path

from hostile.memory import MIB, most_resident
from hostile.sizes import sized
from support.bystander import bystander
from support.chat_client import chat, check_exchange
from support.figures import figure
from support.providers.hostile import hostile_provider
from support.server_process import serving

ENDS = {
    "text": ("limit_reached", "w"),
    "large": ("limit_reached", "said "),
    "ids": ("limit_reached", "w"),
    "arguments": ("model_error", ""),
    "empty": ("model_error", ""),
    "reasoning": ("model_error", ""),
    "calls": ("model_error", ""),
    "calls_at_once": ("model_error", ""),
    "line": ("model_error", ""),
    "less": (None, "fine"),
    "more": (None, "fine"),
}
FELT_S = 4.0
CALL_BYTES = sized(1_000_000, 8_388_608)
MEMORY = 150 * MIB + 16 * CALL_BYTES
"""What a provider sends in one piece is in memory whatever a call may hold."""


async def test_a_provider_that_streams_without_end_is_ended(directory: Path) -> None:
    (directory / "agents_catalog.yaml").write_text(
        "agents: [{id: assistant, class_path: 'agentic_backend.experts.plain_chat.graph:build', default: true}]"
    )
    async with hostile_provider() as url:
        environment = {
            "OPENAI_API_KEY": "sk-of-the-tests-0123456789abcdef",
            "OPENAI_BASE_URL": url,
            "AGENTIC_MODELS__DEFAULT__MODEL": "openai:gpt-5.4-mini",
            "AGENTIC_MODELS__DEFAULT__OPTIONS": '{"max_retries": 0}',
            "AGENTIC_LIMITS__MODEL_CALL_BYTES": str(CALL_BYTES),
        }
        async with (
            serving(cwd=directory, environment=environment) as server,
            chat(server.address, max_size=None) as client,
        ):
            await client.ask("well")
            memory, took = most_resident(server.pid), {}
            async with bystander(server.address, server.internal) as felt:
                for way, (code, said) in ENDS.items():
                    began = time.monotonic()
                    events = await client.ask(f"answer {way}")
                    took[way] = time.monotonic() - began
                    final = events[-1]
                    check_exchange(events)
                    assert (final.get("error") or {}).get("code") == code, way
                    texts = [part["text"] for message in final["messages"][1:2] for part in message["parts"]]
                    assert texts and texts[0].startswith(said), way
                    assert all(0 <= tokens <= 10**9 for tokens in final["usage"].values())
            more = most_resident(server.pid) - memory
    slowest = {name: f"{seconds * 1000:.0f} ms" for name, seconds in felt.slowest_s.items()}
    figure(f"ended after {', '.join(f'{way} {seconds:.1f} s' for way, seconds in took.items())}")
    figure(f"slowest answers to others {slowest}, memory {more / MIB:+.0f} MiB")
    assert felt.waited_at_most(FELT_S)
    assert more < MEMORY
