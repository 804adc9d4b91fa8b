"""Applications on a real server: their calls, what they refuse, and that nothing they do harms anybody else."""

import asyncio
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import httpx
import pytest
from jsonschema import Draft202012Validator
from openapi_spec_validator import validate
from support import glossary, hostile_applications
from support.hostile_applications import ACTS
from support.rest_client import error_of, metric_at, plain_http, rest
from support.running_server import RunningServer, running_server

from agentic_backend.config.topics.limits import LimitsSettings
from agentic_backend.hosting import hosted_application
from agentic_backend.hosting.application_host import ApplicationHost
from agentic_backend.hosting.loading import NO_APPLICATIONS
from agentic_backend.kpi import Kpi
from agentic_backend.stores.base import Store

TERMS = {"ask": "What a person sends.", "run": "One execution of a graph."}
HOSTILE = f"{hostile_applications.PATH}:"


def entry(class_path: str, **settings: Any) -> dict[str, Any]:
    return {"class_path": class_path, "settings": settings}


@pytest.fixture
async def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[RunningServer]:
    monkeypatch.setattr(hosted_application, "_CLOSE_S", 0.05)
    applications = [
        entry(f"{HOSTILE}Unimportable"),
        entry(f"{HOSTILE}NeverStarts"),
        entry(f"{HOSTILE}FailsToStart"),
        entry(f"{HOSTILE}TellsNothing"),
        entry(f"{HOSTILE}classless"),
        entry(f"{HOSTILE}OddMethod"),
        entry(f"{HOSTILE}TwoFaced"),
        entry(f"{HOSTILE}Deep"),
        entry(f"{HOSTILE}Hostile"),
        entry(glossary.PATH, terms=TERMS),
    ]
    async with running_server(tmp_path, settings={"applications": applications}) as server:
        # Those that can start, start beside the server.
        await _until(lambda: metric_at(server.internal, 'chat_application_up{application="glossary"}'), 1.0)
        yield server


async def _until(tell: Any, wanted: object) -> None:
    async with asyncio.timeout(10):
        while await tell() != wanted:
            await asyncio.sleep(0.01)


def apps(server: RunningServer, token: str | None = "dev:ann") -> httpx.AsyncClient:
    headers = {"authorization": f"Bearer {token}"} if token else {}
    return plain_http(base_url=f"{server.address}/apps", headers=headers)


def test_searches_take_the_memory_that_the_settings_give() -> None:
    host = ApplicationHost(NO_APPLICATIONS, cast(Store, None), LimitsSettings(search_bytes=2_000_000), Kpi())
    assert host._search._cache._most_bytes == 2_000_000


async def test_its_calls_are_the_servers(server: RunningServer) -> None:
    async with apps(server) as client:
        listed = (await client.get("/glossary/terms?limit=1")).json()
        assert listed == {"terms": [{"term": "ask", "meaning": TERMS["ask"]}], "asked_by": "ann"}
        assert (await client.get("/glossary/terms/run")).json()["meaning"] == TERMS["run"]
        missing = error_of(await client.get("/glossary/terms/walk"))
        assert (missing["code"], missing["content"]) == ("not_found", "There is no term 'walk'.")
        found = await client.post("/glossary/found", json={"text": "a run of a graph"})
        assert (found.status_code, [one["term"] for one in found.json()["terms"]]) == (201, ["run"])
        assert error_of(await client.post("/glossary/found", json={"txt": 1}))["code"] == "bad_frame"
        assert error_of(await client.get("/glossary/terms?limit=0"))["code"] == "bad_frame"
        assert error_of(await client.delete("/glossary/terms/run"))["code"] == "forbidden"
        assert error_of(await client.post("/glossary/terms"))["code"] == "method_not_allowed"
        assert error_of(await client.get("/glossary/other"))["code"] == "not_found"
        assert error_of(await client.get("/nobody/terms"))["code"] == "not_found"
        foreign = await client.get("/glossary/terms", headers={"origin": "https://evil.example"})
        assert foreign.status_code == 403
    route = '{method="GET",route="/apps/glossary/terms/{term}",status="404"}'
    assert await metric_at(server.internal, f"chat_http_request_seconds_count{route}") == 1


async def test_the_server_tells_of_those_that_serve(server: RunningServer) -> None:
    async with rest(server) as client:
        told = (await client.get("/info")).json()["applications"]
    ours = {"id": "glossary", "title": "Glossary", "version": "1.2.0", "openapi": "/apps/glossary/openapi.json"}
    ours["panels"] = []
    assert [one["id"] for one in told] == ["two-faced", "deep", "hostile", "glossary"] and told[-1] == ours
    async with apps(server, None) as client:
        document = (await client.get("/glossary/openapi.json")).json()
    validate(document)
    assert document["info"]["title"] == "Glossary" and document["info"]["version"] == "1.2.0"
    assert set(document["paths"]) == {"/apps/glossary/terms", "/apps/glossary/terms/{term}", "/apps/glossary/found"}
    answer = document["paths"]["/apps/glossary/found"]["post"]["responses"]["201"]["content"]["application/json"]
    schema = {**answer["schema"], "components": document["components"]}
    Draft202012Validator(schema).validate({"terms": [], "asked_by": "ann"})
    async with plain_http(base_url=server.address) as client:
        assert not [path for path in (await client.get("/openapi.json")).json()["paths"] if path.startswith("/apps")]


async def test_whatever_a_call_does_ends_as_one_error(server: RunningServer, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with apps(server) as client:
        for act in ACTS:
            error = error_of(await client.post(f"/hostile/acts/{act}"))
            is_late = act in ("hang", "evil_future")
            assert (error["code"], error["retryable"]) == ("application_unavailable", is_late), act
            assert (await client.get("/glossary/terms")).status_code == 200
    assert await metric_at(server.internal, 'chat_application_failures_total{application="hostile"}') == len(ACTS)
    lines = [vars(record) for record in caplog.records if record.message == "application failed"]
    told = [(line["application"], line["operation"]) for line in lines if line.get("user_id") == "ann"]
    assert told == [("hostile", "act")] * len(ACTS)
    assert "hunter2" not in caplog.text and "evil.example" not in caplog.text


async def test_calls_that_never_end_are_bounded(server: RunningServer) -> None:
    async with apps(server) as client:
        hanging = [client.post("/hostile/acts/hang") for _ in range(20)]
        assert {error_of(answer)["code"] for answer in await asyncio.gather(*hanging)} == {"application_unavailable"}
        refused = error_of(await client.post("/hostile/refusals/later"))
        assert refused["content"] == "The application 'Hostile' has failed." and refused["retryable"]
        assert (await client.get("/glossary/terms")).status_code == 200


async def test_a_body_whose_checks_stop_the_process_stops_nothing(server: RunningServer) -> None:
    async with apps(server) as client:
        assert error_of(await client.post("/hostile/bodies", json={"word": "x"}))["code"] == "application_unavailable"
        assert error_of(await client.post("/hostile/bodies", json={"other": "x"}))["code"] == "bad_frame"
        assert error_of(await client.get("/hostile/unprintable"))["code"] == "application_unavailable"
        large = await client.post("/hostile/bodies", content=b"x" * 5_000_000)
        assert error_of(large)["code"] == "message_too_large"


async def test_refusals_are_in_values_of_the_server(server: RunningServer) -> None:
    async with apps(server) as client:
        later = await client.post("/hostile/refusals/later")
        assert (later.status_code, later.headers["retry-after"]) == (503, "7")
        assert error_of(later)["content"] == "Come back later."
        assert error_of(await client.post("/hostile/refusals/odd"))["content"] == "You have no access to this."
        assert error_of(await client.post("/hostile/refusals/surrogate"))["content"] == "no ? such"
        assert "retry-after" not in (await client.post("/hostile/refusals/odd_number")).headers
        long = await client.post("/hostile/refusals/long")
        assert len(error_of(long)["content"]) == 1_000 and "retry-after" not in long.headers


async def test_what_a_call_does_to_its_user_stays_there(server: RunningServer) -> None:
    async with apps(server, None) as client:
        told = [(await client.post("/hostile/scopes")).json()["done"] for _ in range(2)]
    assert told[0] == told[1] == "developer ['admin'] {}"


async def test_an_answer_may_have_itself(server: RunningServer) -> None:
    async with apps(server) as client:
        tree = (await client.get("/hostile/tree")).json()
        document = (await client.get("/hostile/openapi.json")).json()
    assert tree == {"name": "root", "branches": [{"name": "leaf", "branches": []}]}
    validate(document)


async def test_those_that_do_not_start_refuse_and_hold_nobody_up(server: RunningServer) -> None:
    async with apps(server) as client:
        for one in ("never-starts", "fails-to-start"):
            error = error_of(await client.get(f"/{one}/time"))
            assert (error["code"], error["retryable"]) == ("application_unavailable", True)
            assert await metric_at(server.internal, f'chat_application_up{{application="{one}"}}') == 0
    refused = f'chat_application_up{{application="{HOSTILE}Unimportable"}}'
    assert await metric_at(server.internal, refused) == 0
