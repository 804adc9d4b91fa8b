"""What agents of the database may not do, whatever admins write: hold the server up, and open agents to others."""

import asyncio
import json
from base64 import b64encode
from contextlib import closing
from pathlib import Path
from sqlite3 import connect

from support.admin_agents import ECHO, SETTINGS, call, entry, served_ids
from support.http_api import DOCUMENT
from support.running_server import running_server

ENCODED = b64encode(b"{messages:>300000000}").decode()
UNBOUNDED = [
    ("PIIMiddleware", "pii_type: key, detector: '(a+)+$'", "detector", "no regular expression"),
    ("SummarizationMiddleware", "model: default, summary_prompt: '{messages:>3000000000}'", "summary_prompt", "braces"),
    ("SummarizationMiddleware", "model: default, summary_prompt: '{messages}{messages}'", "summary_prompt", "braces"),
    ("SummarizationMiddleware", "model: default, summary_prompt: '{messages.__class__}'", "summary_prompt", "braces"),
    ("SummarizationMiddleware", "model: default, summary_prompt: '{messages'", "summary_prompt", "braces"),
    # `{messages:>300000000}`, which would be a text once it is read.
    ("SummarizationMiddleware", f"model: default, summary_prompt: !!binary {ENCODED}", "summary_prompt", "this tag"),
    ("PIIMiddleware", f"pii_type: key, detector: !!binary {ENCODED}", "detector", "this tag"),
    ("PIIMiddleware", "pii_type: key, detector: 5", "detector", "no regular expression"),
    ("ToolErrorMiddleware", "on_error: x", "on_error", "takes a function"),
]
"""Middleware with arguments, and the one whose work has no bound."""


def with_middleware(name: str, args: str) -> str:
    return f"id: helper\nmiddleware:\n- name: {name}\n  args: {{{args}}}\n"


async def test_no_argument_of_middleware_can_make_the_server_stand_still(tmp_path: Path) -> None:
    async with running_server(tmp_path, settings=SETTINGS) as server:
        for name, args, wrong, told in UNBOUNDED:
            (problem,) = (await call(server, "POST", "/check", {"yaml": with_middleware(name, args)}))[1]["problems"]
            column = f"  args: {{{args}}}".index(f"{wrong}: ") + len(f"{wrong}: ") + 1
            assert (problem["line"], problem["column"]) == (4, column) and told in problem["message"]
        for name, args in [
            ("PIIMiddleware", "pii_type: email"),
            ("SummarizationMiddleware", "model: default, summary_prompt: 'As {{json}}: {messages}'"),
        ]:
            checked = await call(server, "POST", "/check", {"yaml": with_middleware(name, args)})
            assert checked == (200, {"problems": []}), name


LEADER = """id: boss
type: leader
crew: [{member}]
access: {{roles: {roles}}}
"""


async def test_a_leader_opens_no_agent_to_those_who_may_not_use_it(tmp_path: Path) -> None:
    catalog = [
        {"id": "kept", "class_path": ECHO, "access": {"roles": ["analyst", "developer"]}},
        {"id": "open", "class_path": ECHO},
        {"id": "filed", "type": "leader", "crew": ["kept"]},
    ]
    async with running_server(tmp_path, agents=catalog, settings=SETTINGS) as server:
        for roles in ("[]", "[teacher]", "[analyst, teacher]"):
            _, checked = await call(server, "POST", "/check", {"yaml": LEADER.format(member="kept", roles=roles)})
            (problem,) = checked["problems"]
            assert (problem["line"], problem["column"]) == (3, 8) and "is for fewer people" in problem["message"]
        for member, roles in (("open", "[]"), ("open", "[teacher]"), ("kept", "[analyst]"), ("kept", "[developer]")):
            text = LEADER.format(member=member, roles=roles)
            assert await call(server, "POST", "/check", {"yaml": text}) == (200, {"problems": []})
        # The operator's own leader is as docs/agents.md says.
        assert "filed" in await served_ids(server)
        # Nor later, when the member is no more for all whom the leader is for.
        await call(server, "POST", "", {"yaml": entry("member")})
        assert (await call(server, "POST", "", {"yaml": LEADER.format(member="member", roles="[]")}))[0] == 201
        await call(server, "PUT", "/member", {"yaml": entry("member", more="access: {roles: [a]}\n"), "version": 1})
        assert "boss" not in await served_ids(server)
        assert "is for fewer people" in (await call(server, "GET", "/boss"))[1]["problems"][0]["message"]


async def test_an_entry_names_so_many_apis_and_operations(tmp_path: Path) -> None:
    (tmp_path / "crm.json").write_text(json.dumps(DOCUMENT))
    crm = {"document": str(tmp_path / "crm.json"), "base_url": "http://127.0.0.1:9/v1"}
    async with running_server(tmp_path, settings={**SETTINGS, "apis": {"crm": crm}}) as server:
        operations = ", ".join(["getCustomer"] * 201)
        for apis, column, told in (
            (f"[{{id: crm, operations: [{operations}]}}]", 30, "expected at most 200 values"),
            (f"[{', '.join(['{id: crm}'] * 21)}]", 7, "expected at most 20 values"),
        ):
            (problem,) = (await call(server, "POST", "/check", {"yaml": f"id: helper\napis: {apis}\n"}))[1]["problems"]
            assert (problem["line"], problem["column"], problem["message"]) == (2, column, told)
        names = ", ".join(f"none{n}" for n in range(200))
        text = f"id: helper\napis: [{{id: crm, operations: [{names}]}}]\n"
        assert len((await call(server, "POST", "/check", {"yaml": text}))[1]["problems"]) == 10


async def test_no_middleware_uses_a_model_that_the_settings_do_not_name(tmp_path: Path) -> None:
    async with running_server(tmp_path, settings=SETTINGS) as server:
        for args, problems in [
            ("{}", ["needs the argument 'model'"]),
            ("{model: null}", ["needs the argument 'model'"]),
        ]:
            text = f"id: helper\nmiddleware:\n- name: LLMToolEmulator\n  args: {args}\n"
            _, checked = await call(server, "POST", "/check", {"yaml": text})
            assert [problem["message"] for problem in checked["problems"]] == problems
        text = "id: helper\nmiddleware:\n- name: LLMToolEmulator\n  args: {model: default}\n"
        assert await call(server, "POST", "/check", {"yaml": text}) == (200, {"problems": []})


async def test_an_entry_uses_an_mcp_server_once(tmp_path: Path) -> None:
    settings = SETTINGS | {"mcp_servers": {"one": {"transport": "stdio", "command": "true"}}}
    async with running_server(tmp_path, settings=settings) as server:
        text = "id: helper\ntuning:\n  mcp_servers:\n  - id: one\n  - id: one\n"
        _, checked = await call(server, "POST", "/check", {"yaml": text})
        (problem,) = checked["problems"]
        assert problem["line"] == 5 and "is there already" in problem["message"]


async def test_a_number_of_thousands_of_digits_is_a_problem_of_its_entry(tmp_path: Path) -> None:
    async with running_server(tmp_path, settings=SETTINGS) as server:
        for text in (f"id: helper\nlimits: {{steps: 0x{'f' * 6000}}}\n", f"id: helper\n? 0x{'f' * 6000}\n: 1\n"):
            status, checked = await call(server, "POST", "/check", {"yaml": text})
            assert status == 200 and any("400 characters" in each["message"] for each in checked["problems"])
        await call(server, "POST", "", {"yaml": entry("good")})
        # As another program may write it.
        with closing(connect(server.data / "chat.sqlite3")) as db, db:
            columns = "id, agent_id, version, action, author, at, enabled, yaml"
            (row,) = db.execute(f"SELECT {columns} FROM agent_versions").fetchall()
            bad = ("bad:1", "bad", *row[2:7], f"id: bad\nlimits: {{steps: 0x{'f' * 6000}}}\n")
            db.execute(f"INSERT INTO agent_versions ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)", bad)
        assert (await call(server, "POST", "", {"yaml": entry("another")}))[0] == 201
        assert {"good", "another"} <= set(await served_ids(server))
        assert "400 characters" in (await call(server, "GET", "/bad"))[1]["problems"][0]["message"]


async def test_an_import_stores_nothing_that_could_not_be_saved_by_itself(tmp_path: Path) -> None:
    async with running_server(tmp_path, settings=SETTINGS) as server:
        await call(server, "POST", "", {"yaml": entry("helper")})
        many = "".join(f"    - {number}\n" for number in range(6_000))
        for more in (f"  description: {'x' * 65_600}\n", f"  tuning:\n   fields:\n    many:\n{many}"):
            text = f"agents:\n- id: helper\n  class_path: {ECHO}\n{more}"
            status, told = await call(server, "POST", "/import", {"yaml": text})
            assert (status, told["error"]["code"]) == (422, "agent_invalid")
            assert told["error"]["problems"][0]["line"] in (2, 5)
        beside = f"agents:\n- id: helper\n  class_path: {ECHO}\nsince: 2026-13-45\n"
        status, told = await call(server, "POST", "/import", {"yaml": beside})
        assert (status, told["error"]["problems"][0]["line"]) == (422, 4)
        assert (await call(server, "GET", "/helper"))[1]["version"] == 1
        assert "helper" in await served_ids(server)


async def test_a_lone_equals_sign_is_a_text_in_exports_and_imports_too(tmp_path: Path) -> None:
    async with running_server(tmp_path, settings=SETTINGS) as server:
        assert (await call(server, "POST", "", {"yaml": entry("helper", more="icon: =\n")}))[0] == 201
        exported = await asyncio.gather(*(call(server, "GET", "/export") for _ in range(3)))
        assert all(status == 200 for status, _ in exported)
        assert (await call(server, "POST", "/import", {"yaml": exported[0][1]}))[0] == 200
        assert (await call(server, "GET", "/helper"))[1]["icon"] == "="
