"""`agentic-backend explain`: one exchange's story from the store and the log, beside the server that wrote them."""

import re
from pathlib import Path
from typing import Any

from support.chat_client import chat, final_text
from support.log_lines import log_lines
from support.server_process import ServerProcess, command, serving

QUESTION = "tell me of quokkaberries"


async def explained(directory: Path, *arguments: object) -> ServerProcess:
    async with command("explain", *arguments, cwd=directory) as process:
        await process.ended()
    return process


async def asked(directory: Path) -> tuple[list[dict[str, Any]], Path]:
    """Two exchanges of one session, whose server still runs when the first is explained; and the log."""
    log = directory / "server.log"
    async with serving(cwd=directory) as server:
        async with chat(server.address, additional_headers={"X-Request-Id": "order-17"}) as client:
            events = await client.ask(QUESTION)
            await client.ask("something else", session_id=events[0]["session_id"])
        await server.stop()
    # A line that is none, one with a control character, one of another exchange with this one's id in a field.
    noise = ["not JSON", '{"time":"2026-01-01T00:00:00+00:00","message":"other","exchange_id":"x","session_id":"%s"}']
    log.write_text(server.stderr + "\n".join(noise) % events[0]["exchange_id"] + "\n")
    return events, log


async def test_it_tells_the_story_in_order_and_no_texts(tmp_path: Path) -> None:
    events, log = await asked(tmp_path)
    told = await explained(tmp_path, events[0]["exchange_id"], "--log", log)
    assert told.process.returncode == 0, told.stderr
    head, _, timeline = told.stdout.partition("\n\n")
    assert re.search(rf"^session: +{events[0]['session_id']}$", head, re.MULTILINE)
    assert re.search(r"^request: +order-17$", head, re.MULTILINE) and re.search(r"^status: +ok$", head, re.MULTILINE)
    assert re.search(r"^trace: +[0-9a-f]{32}$", head, re.MULTILINE)
    lines = timeline.splitlines()
    order = ["exchange begins", "message: user/final", "message: assistant/final", "exchange ends  status=ok"]
    places = [next(place for place, line in enumerate(lines) if what in line) for what in order]
    assert places == sorted(places)
    for what in ("first token", "model: ", "log: exchange started", "log: exchange ended"):
        assert what in timeline
    times = [line[:12] for line in lines]
    assert times == sorted(times)
    assert timeline.count("message: user") == 1, "nothing of the session's other exchange"
    assert "quokka" not in told.stdout and "log: other" not in timeline
    assert final_text(events) not in told.stdout


async def test_texts_are_shown_if_asked_for(tmp_path: Path) -> None:
    events, _ = await asked(tmp_path)
    told = await explained(tmp_path, events[0]["exchange_id"], "--content")
    assert QUESTION in told.stdout


async def test_it_reads_beside_a_running_server(tmp_path: Path) -> None:
    async with serving(cwd=tmp_path) as server, chat(server.address) as client:
        events = await client.ask(QUESTION)
        told = await explained(tmp_path, events[0]["exchange_id"])
        assert told.process.returncode == 0, told.stderr
        again = await client.ask("and again", session_id=events[0]["session_id"])
        assert again[-1]["status"] == "ok"


async def test_a_query_has_its_figures_alone(tmp_path: Path) -> None:
    async with serving(cwd=tmp_path) as server, chat(server.address) as client:
        events = await client.ask(QUESTION, mode="query")
        told = await explained(tmp_path, events[0]["exchange_id"])
    assert told.process.returncode == 0, told.stderr
    assert "none, it was a query" in told.stdout and "query ends  status=ok" in told.stdout


async def test_what_it_cant_tell_is_a_clear_error(tmp_path: Path) -> None:
    nowhere = await explained(tmp_path, "unknown")
    assert nowhere.process.returncode == 1 and "there is no such file" in reason(nowhere)
    events, _ = await asked(tmp_path)
    unknown = await explained(tmp_path, "unknown")
    assert unknown.process.returncode == 1 and "there is no exchange 'unknown'" in reason(unknown)
    no_log = await explained(tmp_path, events[0]["exchange_id"], "--log", tmp_path / "none.log")
    assert no_log.process.returncode == 1 and "none.log" in reason(no_log)


def reason(process: ServerProcess) -> str:
    [line] = log_lines(process.stderr)
    assert (line["level"], line["message"]) == ("error", "exchange can't be explained")
    return str(line["reason"])
