"""The metrics under test: every one has its line in the documentation, and a thousand sessions add no series."""

import asyncio
import re
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families
from support.chat_client import chat
from support.rest_client import plain_http
from support.running_server import RunningServer

from agentic_backend.applications.retrieval.metrics import STALLED, WAITING
from agentic_backend.kpi import Kpi
from agentic_backend.stores.sqlite.store import SqliteStore

DOCUMENT = (Path(__file__).parent.parent / "docs" / "metrics.md").read_text()


def test_every_metric_has_its_line_with_type_and_labels() -> None:
    rows = re.findall(r"^\| `((?:chat|gen_ai)_\w+)` \| (\S.*?) \|(.*?)\|", DOCUMENT, re.MULTILINE)
    documented = {name: (told, labels.strip()) for name, told, labels in rows}
    # Those of the shipped application that an alert or a dashboard asks for.
    of_retrieval = {f"chat_app_retrieval__{metric.name}": metric for metric in (WAITING, STALLED)}
    for name, metric in {**Kpi().declared, **of_retrieval}.items():
        told = metric.type if metric.together in (None, "sum") else f"{metric.type}, {metric.together}"
        labels = ", ".join(f"`{label}`" for label in metric.labels)
        assert documented.pop(name + "_total" if metric.type == "counter" else name) == (told, labels), name
    # Of the listener beside the workers.
    assert documented == {"chat_worker_up": ("gauge, joint", "`worker`")}


async def scrape(server: RunningServer, accept: str = "") -> str:
    async with plain_http() as client:
        return (await client.get(f"{server.internal}/metrics", headers={"accept": accept})).text


def series_of(exposition: str) -> set[tuple[str, tuple[tuple[str, str], ...]]]:
    return {
        (sample.name, tuple(sorted(sample.labels.items())))
        for family in text_string_to_metric_families(exposition)
        for sample in family.samples
    }


async def test_every_metric_is_prefixed_and_seen_after_an_exchange(server: RunningServer) -> None:
    async with chat(server.address) as client:
        await client.ask("What time is it in Tokyo, and what is 1/0?")
    exposition = await scrape(server)
    assert 'chat_exchange_total{agent_id="assistant",status="ok"} 1.0' in exposition
    assert 'chat_tool_failures_total{tool="calculate"} 1.0' in exposition
    assert 'gen_ai_token_type="output"' in exposition
    assert 'chat_store_operation_seconds_count{kind="write",operation="append",outcome="ok"}' in exposition
    assert 'chat_dependency_up{dependency="store"} 1.0' in exposition
    assert all(name.startswith(("chat_", "gen_ai_", "process_", "python_gc_")) for name, _ in series_of(exposition))
    assert {"process_open_fds", "process_resident_memory_bytes", "python_gc_collections_total"} <= {
        name for name, _ in series_of(exposition)
    }


async def test_every_answer_is_counted_by_its_route_and_status_however_its_path_is_written(
    server: RunningServer,
) -> None:
    async with plain_http(base_url=server.address) as client:
        session = (await client.post("/agentic/v1/sessions", json={})).json()["id"]
        await client.get(f"/agentic/v1/sessions/{session}")
        await client.get("/agentic/v1/sessions/none")
        await client.request("TRACE", "/agentic/v1/sessions")
        for number in range(50):
            await client.get(f"/nothing/{number}")
        await client.get("/")
        await client.get("/", headers={"Origin": "https://evil.example"})
    families = {each.name: each for each in text_string_to_metric_families(await scrape(server))}
    counts = {
        tuple(sample.labels.values()): sample.value
        for sample in families["chat_http_request_seconds"].samples
        if sample.name.endswith("_count")
    }
    one = "/agentic/v1/sessions/{id}"
    assert counts == {
        ("POST", "/agentic/v1/sessions", "201"): 1,
        ("GET", one, "200"): 1,
        ("GET", one, "404"): 1,
        ("other", "/agentic/v1/sessions", "405"): 1,
        ("GET", "unknown", "404"): 50,
        ("GET", "page", "200"): 1,
        ("GET", "unknown", "403"): 1,
    }


async def test_an_error_of_an_exchange_is_counted_by_its_code(server: RunningServer) -> None:
    async with chat(server.address) as client:
        events = await client.ask("fail at once")
    exposition = await scrape(server)
    assert events[-1]["error"]["code"] == "model_error"
    assert 'chat_exchange_errors_total{agent_id="assistant",code="model_error",whose="external"} 1.0' in exposition


async def test_what_hangs_is_seen_while_it_hangs(server: RunningServer) -> None:
    async with chat(server.address) as client:
        await client.running("hang after 5 tokens", words=5)
        await asyncio.sleep(1.1)
        exposition = await scrape(server)
        assert "chat_running_model_calls 1.0" in exposition
        ages = {line.split()[0]: float(line.split()[1]) for line in exposition.splitlines() if "_oldest_" in line[:12]}
        # They are read one after the other, and began within a millisecond.
        assert ages["chat_oldest_exchange_seconds"] > 1 and ages["chat_oldest_model_call_seconds"] > 1


async def test_exemplars_name_the_exchange(server: RunningServer) -> None:
    async with chat(server.address) as client:
        events = await client.ask("hello", agent_id="echo")
    exposition = await scrape(server, "application/openmetrics-text; version=1.0.0")
    assert f'exchange_id="{events[-1]["exchange_id"]}"' in exposition


async def open_sessions(server: RunningServer, count: int) -> None:
    """Over one connection and by hand: an HTTP client would take twice the time of the server."""
    host = server.address.removeprefix("http://")
    reader, writer = await asyncio.open_connection(*host.split(":"))
    body = '{"agent_id": "echo"}'
    head = f"POST /agentic/v1/sessions HTTP/1.1\r\nHost: {host}\r\nContent-Length: {len(body)}\r\n"
    request = f"{head}Content-Type: application/json\r\n\r\n{body}".encode()
    for _ in range(count):
        writer.write(request)
        answer = await reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"(?i)\r\ncontent-length: (\d+)", answer)
        assert answer.startswith(b"HTTP/1.1 201 ") and length, answer
        await reader.readexactly(int(length[1]))
    writer.close()
    await writer.wait_closed()


async def test_a_thousand_sessions_add_no_series(server: RunningServer) -> None:
    async with chat(server.address) as client:
        await open_sessions(server, 1)
        for _ in range(3):
            await client.ask("hello", agent_id="echo")
        # Each part of the maintenance of what runs has been needed once: the slowest comes every 5 seconds.
        await client.ask("wait 6 seconds")
        before = series_of(await scrape(server))
        for _ in range(50):
            await client.ask("hello", agent_id="echo")
        await asyncio.gather(*(open_sessions(server, 100) for _ in range(10)))
        exposition = await scrape(server)
    assert 'chat_sessions_created_total{agent_id="echo"} 1054.0' in exposition
    # Maintenance and chores come at their own times, and may come for the first time meanwhile: there are only so many
    # of them, and of the store's operations. A busy machine may block the event loop for the first time.
    fixed = {name.removeprefix("_") for each in SqliteStore.__mro__ for name in vars(each)}
    unexpected = {
        (name, labels)
        for name, labels in series_of(exposition) - before
        if not name.startswith(("chat_event_loop_blocked_seconds", "chat_housekeeping_"))
        and dict(labels).get("operation") not in fixed
    }
    assert unexpected == set()


def test_ten_thousand_names_of_tools_models_and_errors_add_a_bounded_number_of_series() -> None:
    kpi = Kpi()
    kpi.models.configured(lambda: {"model 7"})
    for number in range(10_000):
        kpi.exchanges.started()
        kpi.agents.tool_ended(f"tool {number}", "Echo", 0.1, "")
        named = f"provider {number}", f"model {number}"
        kpi.models.called(*named, duration_s=0.1, first_chunk_s=0.1, tokens=(1, 1), error=f"Error{number}")
        kpi.models.cost(f"snapshot {number}", "USD", 0.1, is_estimated=False)
        kpi.exchanges.ended("echo", "ok", None, 0.1, 0.1, f"exchange {number}")
    exposition, _ = kpi.exposition("")
    series = series_of(exposition.decode())

    def values(label: str) -> set[str]:
        return {dict(labels)[label] for _, labels in series if label in dict(labels)}

    assert len(values("gen_ai_tool_name")) == len(values("model")) == 101
    assert values("gen_ai_provider_name") == values("error_type") - {""} == {"_OTHER"}
    assert values("gen_ai_request_model") == {"model 7", "_OTHER"}
    assert len(series) < 15_000
