"""Traces of exchanges: real models, tools, MCP servers and stores, and a real receiver of OTLP over HTTP."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from services.mcp_echo import echo_over_stdio, echo_server
from support.chat_client import PATH, PATIENCE_S, chat, check_exchange, final_text
from support.hostile_modules import entry
from support.mcp_agents import MODULE
from support.otlp_receiver import OtlpReceiver, otlp_receiver
from support.providers.model_server import TITLE, ModelServer, model_server
from support.providers.reply import INPUT_TOKENS, OUTPUT_TOKENS, Reply, ToolUse
from support.recorded_agents import eventually
from support.running_server import RunningServer, running_server

from agentic_backend.config.topics.observability import TracingSettings
from agentic_backend.config.yaml.located_yaml import ConfigError
from agentic_backend.server.process import address_of, bind
from agentic_backend.tracing.exporting import exporting

CHECKOUT = Path(__file__).parents[2]
TRACE, SPAN, REQUEST_ID = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7", "order-17"
NAMED = {"X-Request-Id": REQUEST_ID, "traceparent": f"00-{TRACE}-{SPAN}-01"}
KEY, QUESTION, ANSWER = "sk-quokkaberry", "tell wombatfruit", "numbatjuice for you"
INTERNAL, SERVER, CLIENT = 1, 2, 3
"""Kinds of spans."""
ASK = f"ask {PATH}"
"""The span of an ask over the WebSocket."""


@asynccontextmanager
async def traced_server(
    directory: Path,
    provider: ModelServer,
    endpoint: str,
    servers: dict[str, Any] | None = None,
    *,
    agent: dict[str, Any] | None = None,
    settings: dict[str, Any] | None = None,
    **tracing: Any,
) -> AsyncIterator[RunningServer]:
    options = {"base_url": f"{provider.url}/v1", "api_key": KEY}
    whole = {
        "models": {"default": {"model": "openai:gpt-test", "options": options}},
        "mcp_servers": servers or {},
        "tracing": {"endpoint": endpoint, **tracing},
        "server": {"port": 0, "grace_s": 0.2},
        # Their calls of the model would be among those of the exchange, or be cut by the server's end.
        "titles": {"enabled": False},
        **(settings or {}),
    }
    uses = [{"id": server} for server in servers or {}]
    tooled = {"id": "tooled", "name": "Tool user", "class_path": f"{MODULE}:ToolUser", "tuning": {"mcp_servers": uses}}
    async with running_server(directory, agents=[{**tooled, **(agent or {})}], settings=whole) as server:
        yield server


def once_a_tool(name: str) -> Any:
    """A model that calls the tool, and then answers."""

    def reply(messages: list[dict[str, Any]]) -> Reply:
        if messages[-1]["role"] == "tool":
            return Reply(ANSWER)
        return Reply(calls=[ToolUse("call-1", name, "{}")])

    return reply


async def ask(server: RunningServer, **fields: Any) -> list[dict[str, Any]]:
    async with chat(server.address, additional_headers=NAMED) as client:
        events = await client.ask(QUESTION, **fields)
        check_exchange(events)
        assert final_text(events) == ANSWER
        return events


def results_of(events: list[dict[str, Any]]) -> list[str]:
    parts = [part for message in events[-1]["messages"] for part in message["parts"]]
    return [part["content"] for part in parts if part["type"] == "tool_result"]


@pytest.mark.parametrize("transport", ["streamable_http", "stdio"])
async def test_an_exchange_is_a_tree_of_spans_and_sends_its_ids_on(tmp_path: Path, transport: str) -> None:
    async with otlp_receiver() as receiver, model_server() as provider:
        provider.reply = once_a_tool("call_ids")
        with echo_server("streamable_http", "--open") as echo:
            own = echo.settings() if transport == "streamable_http" else echo_over_stdio()
            async with traced_server(tmp_path, provider, receiver.url, {"echo": own}) as server:
                events = await ask(server, agent_id="tooled")

    frame = receiver.named("ask ")
    assert (frame.trace, frame.parent, frame.kind, frame.name) == (TRACE, SPAN, SERVER, ASK)
    [exchange] = receiver.exchanges()
    assert (exchange.trace, exchange.parent, exchange.kind) == (TRACE, frame.id, INTERNAL)
    assert {span.trace for span in receiver.spans if span.trace == TRACE} == {TRACE}
    assert exchange.attributes["agentic.exchange.id"] == events[0]["exchange_id"]
    assert exchange.attributes["agentic.request.id"] == REQUEST_ID
    assert exchange.attributes["agentic.exchange.status"] == "ok"

    agent = receiver.named("invoke_agent")
    assert receiver.path(agent) == [ASK, "exchange", "invoke_agent Tool user"]
    assert agent.attributes["gen_ai.operation.name"] == "invoke_agent"
    assert agent.attributes["gen_ai.agent.name"] == "Tool user"
    session_id = events[0]["session_id"]
    assert agent.attributes["gen_ai.conversation.id"] == session_id

    chats = [span for span in receiver.all_named("chat ") if "invoke_agent Tool user" in receiver.path(span)]
    assert [receiver.path(span) for span in chats] == [[*receiver.path(agent), "chat gpt-test"]] * 2
    for span in chats:
        assert span.kind == CLIENT and not span.is_error
        told = span.attributes
        assert (told["gen_ai.operation.name"], told["gen_ai.provider.name"]) == ("chat", "openai")
        assert told["gen_ai.request.model"] == "gpt-test" and told["gen_ai.conversation.id"] == session_id
        used = (told["gen_ai.usage.input_tokens"], told["gen_ai.usage.output_tokens"])
        assert used == (INPUT_TOKENS, OUTPUT_TOKENS)
        assert exchange.began <= span.began < span.ended <= exchange.ended

    mcp = receiver.named("tools/call")
    assert receiver.path(mcp) == [*receiver.path(agent), "execute_tool call_ids", "tools/call call_ids"]
    assert mcp.kind == CLIENT and mcp.attributes["mcp.method.name"] == "tools/call"
    assert receiver.named("execute_tool").attributes["gen_ai.tool.call.id"] == "call-1"
    assert receiver.resources[0]["service.name"] == "agentic-backend"
    assert receiver.resources[0]["service.version"] and receiver.resources[0]["service.instance.id"]

    # What is sent on names the span that sends it.
    for request, span in zip(provider.asked, chats, strict=True):
        assert request.headers["x-request-id"] == REQUEST_ID
        assert request.headers["traceparent"] == f"00-{TRACE}-{span.id}-01"
    [headers, meta] = json.loads(results_of(events)[0])
    sent = {"x-request-id": REQUEST_ID, "traceparent": f"00-{TRACE}-{mcp.id}-01"}
    assert meta == sent
    assert headers == (sent if transport == "streamable_http" else {"x-request-id": "", "traceparent": ""})


@pytest.mark.parametrize("content", [False, True])
async def test_texts_are_in_spans_only_if_asked_for_and_secrets_never(tmp_path: Path, content: bool) -> None:
    header = {"Authorization": "Basic platypusplum"}
    async with otlp_receiver() as receiver, model_server() as provider:
        provider.reply = lambda messages: Reply(ANSWER)
        async with traced_server(tmp_path, provider, receiver.url, headers=header, content=content) as server:
            async with chat(server.address, token="dev:alice") as client:
                events = await client.ask(QUESTION)
                assert final_text(events) == ANSWER
                # The provider's error quotes the key and the question.
                provider.reply = lambda messages: Reply(status=401)
                events = await client.ask(QUESTION, session_id=events[0]["session_id"])
                assert events[-1]["error"]["code"] == "model_refused_key"
    assert receiver.headers[0]["authorization"] == header["Authorization"]
    for secret in (KEY, "dev:alice", "platypusplum"):
        assert secret.encode() not in receiver.raw
    for text in (QUESTION, ANSWER):
        assert (text.encode() in receiver.raw) is content
    refused = [span for span in receiver.spans if span.is_error]
    assert {span.attributes["error.type"] for span in refused} == {"model_refused_key"}
    assert {"exchange", "chat gpt-test"} <= {span.name for span in refused}


async def test_what_modules_withhold_is_in_no_span(tmp_path: Path) -> None:
    """Of what models and tools say, and of titles: spans of their calls end before modules have looked at it."""
    modules = tmp_path / "modules.yaml"
    settings = {"after": "redact", "tool": "redact", "word": ANSWER}
    modules.write_text(json.dumps({"modules": [entry(settings=settings)]}))
    more = {"modules": {"file": str(modules)}, "titles": {"enabled": True}}
    async with otlp_receiver() as receiver, model_server() as provider:
        with echo_server("streamable_http", "--open") as echo:
            arguments = json.dumps({"text": ANSWER})
            async with traced_server(
                tmp_path, provider, receiver.url, {"echo": echo.settings()}, content=True, settings=more
            ) as server:
                provider.reply = lambda messages: (
                    Reply(f"It is {ANSWER}.")
                    if messages[-1]["role"] == "tool"
                    else Reply(calls=[ToolUse("call-1", "echo", arguments)])
                )
                async with chat(server.address) as client:
                    events = await client.ask(QUESTION, agent_id="tooled")
                    assert final_text(events) == "It is ***."
                    assert results_of(events)
                    await eventually(lambda: provider.received[-1].wants_title)
    assert receiver.all_named("execute_tool") and len(receiver.all_named("chat ")) >= 2
    for text in (ANSWER, TITLE):
        assert text.encode() not in receiver.raw
    [exchange] = receiver.exchanges()
    said = [exchange.attributes[f"gen_ai.{side}.messages"] for side in ("input", "output")]
    assert QUESTION in said[0] and "It is ***." in said[1], "what people and models are given is not lost"


SERVICES = {"langfuse": "/api/public/otel/v1/traces", "langsmith": "/otel/v1/traces"}


@pytest.mark.parametrize("service", SERVICES)
async def test_the_documented_settings_of_a_service_are_all_that_it_takes(tmp_path: Path, service: str) -> None:
    blocks = re.findall(r"```bash\n(.*?)```", (CHECKOUT / "docs" / "production.md").read_text(), re.DOTALL)
    [both] = [block for block in blocks if "AGENTIC_TRACING__HEADERS" in block]
    [own] = [part for part in both.split("\n\n") if service in part.lower()]
    settings = dict(re.findall(r"^AGENTIC_TRACING__(\w+)=(.+)$", own, re.MULTILINE))
    # For whoever copies the page has put the key where the dots are.
    headers = json.loads(settings["HEADERS"].strip("'").replace("…", "cGstbGY6c2stbGY="))
    assert urlsplit(settings["ENDPOINT"]).path == SERVICES[service]
    async with otlp_receiver(SERVICES[service]) as receiver, model_server() as provider:
        provider.reply = lambda messages: Reply(ANSWER)
        async with traced_server(tmp_path, provider, receiver.url, headers=headers, content=True) as server:
            await ask(server)
    got = receiver.headers[0]
    assert {name: got[name.lower()] for name in headers} == headers
    assert (got["content-type"], got["content-encoding"]) == ("application/x-protobuf", "gzip")
    # What both read: the conversation, the model, what was said.
    [chat_span] = [span for span in receiver.all_named("chat ") if span.trace == TRACE]
    told = chat_span.attributes
    assert told["gen_ai.request.model"] == "gpt-test" and told["gen_ai.conversation.id"]
    assert QUESTION in told["gen_ai.input.messages"] and ANSWER in told["gen_ai.output.messages"]


async def test_what_is_not_sampled_is_not_sent_and_keeps_its_ids(tmp_path: Path) -> None:
    async with otlp_receiver() as receiver, model_server() as provider:
        provider.reply = lambda messages: Reply(ANSWER)
        async with traced_server(tmp_path, provider, receiver.url, sample_ratio=0) as server:
            async with chat(server.address) as client:
                await client.ask(QUESTION)
                assert receiver.spans == []
                first = provider.asked[-1].headers
            # A client's own decision holds.
            await ask(server)
    assert first["traceparent"].endswith("-00") and first["x-request-id"]
    assert {span.trace for span in receiver.spans} == {TRACE}


async def test_without_a_receiver_the_ids_go_on_all_the_same(tmp_path: Path) -> None:
    async with model_server() as provider:
        provider.reply = lambda messages: Reply(ANSWER)
        options = {"base_url": f"{provider.url}/v1", "api_key": KEY}
        settings = {"models": {"default": {"model": "openai:gpt-test", "options": options}}, "server": {"port": 0}}
        async with running_server(tmp_path, settings=settings) as server:
            await ask(server)
    assert provider.asked[0].headers["x-request-id"] == REQUEST_ID
    assert provider.asked[0].headers["traceparent"].startswith(f"00-{TRACE}-")


async def paused(
    directory: Path, provider: ModelServer, receiver: OtlpReceiver, agent: dict[str, Any]
) -> tuple[dict[str, str], dict[str, str]]:
    """Leave an exchange that waits for a person; its ids, and the decision that it waits for."""
    async with traced_server(directory, provider, receiver.url, agent=agent) as server:
        async with chat(server.address, additional_headers=NAMED) as client:
            await client.send({"type": "ask", "message": QUESTION, "agent_id": "tooled"})
            waiting = await client.until("awaiting_human", "final")
    [request] = waiting["payload"]["requests"]
    decision = {"call_id": request["call_id"], "args_sha256": request["args_sha256"], "action": "approve"}
    return {name: waiting[name] for name in ("session_id", "exchange_id")}, decision


async def test_a_decision_on_another_instance_goes_on_in_the_trace_that_began(tmp_path: Path) -> None:
    with echo_server("streamable_http", "--open") as echo:
        async with otlp_receiver() as receiver, model_server() as provider:
            provider.reply = once_a_tool("process_id")
            tuning = {"fields": {"server": echo.settings()["url"]}}
            agent = {"class_path": f"{MODULE}:OwnTools", "require_approval": ["process_id"], "tuning": tuning}
            ids, decision = await paused(tmp_path, provider, receiver, agent)
            async with traced_server(tmp_path, provider, receiver.url, agent=agent) as server:
                async with chat(server.address) as client:
                    await client.send({"type": "human_resume", **ids, "payload": {"decisions": [decision]}})
                    assert (await client.until("final"))["status"] == "ok"
    first, second = receiver.exchanges()
    assert (first.trace, second.trace) == (TRACE, TRACE)
    assert second.parent == first.id
    [asked] = second.links
    assert asked == receiver.named("human_resume ").trace != TRACE, "the decision's own call"
    assert [span.attributes["agentic.exchange.status"] for span in (first, second)] == ["awaiting_human", "ok"]
    assert receiver.path(receiver.all_named("execute_tool")[-1])[:3] == [ASK, "exchange", "exchange"]
    assert [span.name for span in receiver.spans if span.is_error] == []


@pytest.mark.parametrize("fault", ["hangs", "refuses", "absent"])
async def test_a_receiver_that_fails_holds_nothing_up(
    tmp_path: Path, fault: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"BSP_MAX_QUEUE_SIZE": 8, "BSP_MAX_EXPORT_BATCH_SIZE": 8, "EXPORTER_OTLP_TIMEOUT": 60}.items():
        monkeypatch.setenv(f"OTEL_{name}", str(value))
    async with otlp_receiver() as receiver, model_server() as provider:
        provider.reply = lambda messages: Reply(ANSWER)
        endpoint = receiver.url
        if fault == "hangs":
            receiver.hangs = asyncio.Event()
        elif fault == "refuses":
            receiver.status = 401
        else:
            with bind("127.0.0.1", 0) as bound:
                endpoint = f"{address_of(bound)}/v1/traces"
        # Shorter than the time that the receiver may take.
        async with asyncio.timeout(PATIENCE_S):
            async with traced_server(tmp_path, provider, endpoint) as server:
                for _ in range(3):
                    await ask(server)
    if fault == "refuses":
        [line] = [record for record in caplog.records if record.message == "traces could not be sent"]
        assert line.levelname == "WARNING"
    assert endpoint not in caplog.text


async def test_variables_that_dont_go_together_are_told_at_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "8")
    settings = TracingSettings(endpoint="http://127.0.0.1:1/v1/traces")
    with pytest.raises(ConfigError, match=r"environment: OTEL_\*: max_export_batch_size must be less than"):
        async with exporting(settings, "here", lambda: None):
            pass


HALF = "\ud83d"
"""Half of a character, as models cut them; JSON holds it, UTF-8 doesn't."""


@pytest.mark.parametrize("content", [False, True])
async def test_half_of_a_character_breaks_neither_an_exchange_nor_the_spans_sent_with_its(
    tmp_path: Path, content: bool
) -> None:
    async with otlp_receiver() as receiver, model_server() as provider:
        with echo_server("streamable_http", "--open") as echo:
            servers = {"echo": echo.settings()}
            async with traced_server(tmp_path, provider, receiver.url, servers, content=content) as server:
                async with chat(server.address) as client:
                    provider.reply = lambda messages: Reply(f"{ANSWER} {HALF}")
                    events = await client.ask(QUESTION)
                    assert final_text(events) == f"{ANSWER} \ufffd"
                    calls = [ToolUse("call-1", "call_ids", json.dumps({"left": HALF}))]
                    replies = iter([Reply(calls=calls), Reply(ANSWER)])
                    provider.reply = lambda messages: next(replies)
                    events = await client.ask(QUESTION, agent_id="tooled")
                    check_exchange(events)
    assert [exchange.attributes["agentic.exchange.status"] for exchange in receiver.exchanges()] == ["ok", "ok"]
    assert receiver.named("execute_tool").name == "execute_tool call_ids"
    shown = [span.name for span in receiver.spans if "\ufffd" in str(span.attributes)]
    assert shown == (["chat gpt-test", "execute_tool call_ids"] if content else [])
