"""Agents that admins keep in the database: written, checked, served, rolled back, exported and imported."""

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.admin_agents import ECHO, ON, SETTINGS, call, entry, served_ids
from support.chat_client import chat
from support.rest_client import PREFIX, rest
from support.running_server import RunningServer, running_server


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[RunningServer]:
    async with running_server(tmp_path, settings=SETTINGS) as server:
        yield server


async def said(server: RunningServer, agent_id: str) -> Any:
    async with chat(server.address) as client:
        return (await client.ask("hello", agent_id=agent_id))[-1]["status"]


async def agents(server: RunningServer) -> dict[tuple[str, str], Any]:
    return {(each["id"], each["source"]): each for each in (await call(server, "GET"))[1]["agents"]}


async def actions(server: RunningServer, agent_id: str = "helper") -> list[tuple[int, str, str]]:
    _, page = await call(server, "GET", f"/{agent_id}/versions")
    return [(each["version"], each["action"], each["author"]) for each in page["versions"]]


async def test_an_agent_is_created_asked_changed_and_deleted(server: RunningServer) -> None:
    status, agent = await call(server, "POST", "", {"yaml": entry()})
    assert (status, agent["version"], agent["served"], agent["yaml"]) == (201, 1, True, entry())
    assert agent["updated_by"] == "developer" and agent["problems"] == []
    assert await said(server, "helper") == "ok"
    status, agent = await call(server, "PUT", "/helper", {"yaml": entry(more="description: It helps.\n"), "version": 1})
    assert (status, agent["version"], agent["description"]) == (200, 2, "It helps.")
    assert (await call(server, "DELETE", "/helper"))[0] == 204
    assert "helper" not in await served_ids(server)
    assert (await call(server, "GET", "/helper"))[0] == 404
    assert await actions(server) == [
        (3, "deleted", "developer"),
        (2, "changed", "developer"),
        (1, "created", "developer"),
    ]


async def test_every_version_can_be_read_and_rolled_back_to_also_after_a_deletion(server: RunningServer) -> None:
    await call(server, "POST", "", {"yaml": entry()})
    await call(server, "PUT", "/helper", {"yaml": entry(more="tags: [b]\n"), "version": 1})
    await call(server, "DELETE", "/helper")
    status, version = await call(server, "GET", "/helper/versions/1")
    assert (status, version["yaml"], version["action"]) == (200, entry(), "created")
    status, agent = await call(server, "POST", "/helper/rollback", {"version": 2})
    assert (status, agent["version"], agent["yaml"], agent["served"]) == (200, 4, entry(more="tags: [b]\n"), True)
    assert (await call(server, "POST", "/helper/rollback", {"version": 9}))[0] == 404
    _, first = await call(server, "GET", "/helper/versions?limit=3")
    _, rest_ = await call(server, "GET", f"/helper/versions?limit=3&cursor={first['next_cursor']}")
    assert [each["version"] for each in (*first["versions"], *rest_["versions"])] == [4, 3, 2, 1]
    assert "next_cursor" not in rest_


async def test_an_agent_is_disabled_and_enabled_again_and_its_text_says_so(server: RunningServer) -> None:
    await call(server, "POST", "", {"yaml": entry(more="enabled: true  # for now\ntags: [a]\n")})
    status, agent = await call(server, "POST", "/helper/disable")
    assert (status, agent["enabled"], agent["served"]) == (200, False, False)
    assert "enabled: false  # for now" in agent["yaml"]
    assert "helper" not in await served_ids(server)
    status, agent = await call(server, "POST", "/helper/enable")
    assert (status, agent["enabled"], agent["served"], agent["version"]) == (200, True, True, 3)
    assert (await call(server, "POST", "/helper/enable"))[1]["version"] == 3
    assert [action for _, action, _ in await actions(server)] == ["enabled", "disabled", "created"]


async def test_problems_have_their_places_and_nothing_is_stored(server: RunningServer) -> None:
    wrong = entry(more="modell: default\nlimits: {steps: many}\n")
    status, refused = await call(server, "POST", "", {"yaml": wrong})
    assert (status, refused["error"]["code"]) == (422, "agent_invalid")
    problems = refused["error"]["problems"]
    assert [(each["line"], each["column"]) for each in problems] == [(5, 1), (6, 17)]
    assert "modell" in problems[0]["message"] and "model" in problems[0]["message"]
    assert (await call(server, "POST", "/check", {"yaml": wrong}))[1]["problems"] == problems
    assert (await call(server, "POST", "/check", {"yaml": entry()})) == (200, {"problems": []})
    assert (await call(server, "GET", "/helper"))[0] == 404


WRONG = [
    ("", "id"),
    ("- id: a\n", "mapping"),
    ("id: [", "is not YAML"),
    ("id: a\nid: b\nclass_path: x:y\n", "duplicate key"),
    ("[" * 3_000, "nested too deeply"),
    (
        "id: a\n"
        + "x: &a [1,1,1,1,1,1,1,1,1]\n"
        + "".join(f"x{n}: &{chr(98 + n)} [{','.join([f'*{chr(97 + n)}'] * 9)}]\n" for n in range(8)),
        "more than 5000 values",
    ),
    ("? " + "k" * 2_000 + "\n: 1\n", "more than 1024 characters"),
    ("%TAG !a! x\n" * 5_000 + "---\nid: a\n", "lines of %TAG"),
    ("x: &x " + "w" * 20_000 + "\nid: [*x, *x, *x, *x]\n", "the aliases stand for too much text"),
    ("#" * 70_000, "longer than 65536 bytes"),
    ("é" * 40_000, "longer than 65536 bytes"),
    (entry(more="model: openai:gpt-5.5\n"), "no model 'openai:gpt-5.5' in the settings"),
    (entry(more="crew: [assistant]\n"), "only an agent of type 'leader'"),
    (entry("export"), "no agent of the database may be called"),
    (entry(more="default: true\n"), "the default is the agent 'assistant' already"),
    (entry(class_path="agentic_backend.experts.assistant.nothing:X"), "no module named"),
]


async def test_what_is_wrong_is_refused(server: RunningServer) -> None:
    for text, told in WRONG:
        status, refused = await call(server, "POST", "", {"yaml": text})
        assert (status, refused["error"]["code"]) == (422, "agent_invalid"), text[:100]
        assert told in " ".join(each["message"] for each in refused["error"]["problems"])
    assert len((await call(server, "GET"))[1]["agents"]) == 1


FORBIDDEN = [
    "os:system",
    "os.system",
    "antigravity:fly",
    "subprocess:Popen",
    "support.test_agents:raising_graph",
    "support.test_agents.raising_graph",
    "support.reexporting:system",
    "support.reexporting:shell",
    "support.reexporting:Popen",
    "support.reexporting:os",
    "support.reexporting:raising_graph",
    "agentic_backend.experts.assistant.assistant:create_agent",
    "agentic_backend.experts.assistant.assistant:AgentFlow",
]


async def test_no_class_is_named_that_the_settings_do_not_allow(server: RunningServer) -> None:
    for class_path in FORBIDDEN:
        status, refused = await call(server, "POST", "", {"yaml": entry(class_path=class_path)})
        assert (status, refused["error"]["code"]) == (422, "agent_invalid"), class_path
        assert [each["line"] for each in refused["error"]["problems"]] == [4], class_path
    assert "antigravity" not in sys.modules
    assert "helper" not in await served_ids(server)


async def test_what_is_forbidden_is_logged_and_audited(server: RunningServer, caplog: pytest.LogCaptureFixture) -> None:
    servers = "tuning: {mcp_servers: [{id: operations}, {id: theirs}]}\n"
    for path, body in (
        ("", {"yaml": entry(class_path="os:system")}),
        ("", {"yaml": entry(more=servers)}),
        ("/import", {"yaml": yaml.safe_dump({"agents": [{"id": "a", "class_path": "os:system"}]})}),
    ):
        assert (await call(server, "POST", path, body))[0] == 422
    told = [record for record in caplog.records if record.message == "forbidden agent refused"]
    assert [
        (record.__dict__["user_id"], record.__dict__["agent_id"], record.__dict__["forbidden"]) for record in told
    ] == [
        ("developer", "helper", ["os:system"]),
        ("developer", "helper", ["operations", "theirs"]),
        ("developer", "a", ["os:system"]),
    ]
    async with rest(server) as client:
        reads = (await client.get("/admin/reads")).json()["reads"]
    found = [(each["path"], each["subject"]) for each in reads if each["path"].startswith("refused")]
    assert found == [
        ("refused: os:system", "a"),
        ("refused: operations, theirs", "helper"),
        ("refused: os:system", "helper"),
    ]


CALLS = [
    ("GET", ""),
    ("POST", ""),
    ("GET", "/assistant"),
    ("PUT", "/assistant"),
    ("DELETE", "/assistant"),
    ("GET", "/assistant/versions"),
    ("GET", "/assistant/versions/1"),
    ("POST", "/assistant/rollback"),
    ("POST", "/assistant/enable"),
    ("POST", "/assistant/disable"),
    ("POST", "/check"),
    ("GET", "/export"),
    ("POST", "/import"),
    ("GET", "/schema"),
]


async def test_who_is_no_admin_is_refused(server: RunningServer) -> None:
    for method, path in CALLS:
        status, refused = await call(server, method, path, {"yaml": entry()}, token="dev:alice")
        assert (status, refused["error"]["code"]) == (403, "forbidden"), path


async def test_of_many_who_change_one_version_one_wins(server: RunningServer) -> None:
    await call(server, "POST", "", {"yaml": entry()})
    for based_on in (1, 2):
        bodies = [{"yaml": entry(more=f"tags: [t{n}]\n"), "version": based_on} for n in range(6)]
        answers = await asyncio.gather(*(call(server, "PUT", "/helper", body) for body in bodies))
        assert sorted(status for status, _ in answers) == [200, 409, 409, 409, 409, 409]
        [text] = [body["yaml"] for body, (status, _) in zip(bodies, answers, strict=True) if status == 200]
        assert (await call(server, "GET", "/helper"))[1]["yaml"] == text
        assert {answer["error"]["code"] for status, answer in answers if status == 409} == {"agent_conflict"}
    assert (await call(server, "POST", "", {"yaml": entry()}))[0] == 409
    assert len(await actions(server)) == 3


async def test_agents_of_the_file_are_shown_and_can_not_be_changed(server: RunningServer) -> None:
    status, agent = await call(server, "GET", "/assistant")
    assert (status, agent["source"], agent["served"]) == (200, "yaml", True) and "version" not in agent
    assert yaml.safe_load(agent["yaml"])["class_path"].endswith(":Assistant")
    assert (await call(server, "PUT", "/assistant", {"yaml": entry("assistant"), "version": 1}))[0] == 404
    assert (await call(server, "DELETE", "/assistant"))[0] == 404
    assert (await call(server, "PUT", "/helper", {"yaml": entry(), "version": 1}))[0] == 404
    await call(server, "POST", "", {"yaml": entry()})
    status, refused = await call(server, "PUT", "/helper", {"yaml": entry("other"), "version": 1})
    assert "can't be changed" in refused["error"]["problems"][0]["message"]


async def test_secrets_of_the_file_are_not_shown_however_yaml_writes_them(tmp_path: Path) -> None:
    fields = {"api_key": "it's: #1 of mine", "password": "word " * 40 + "end"}
    told = {"id": "first", "class_path": ECHO, "tuning": {"fields": fields}}
    async with running_server(tmp_path, settings=SETTINGS, agents=[told]) as server:
        _, agent = await call(server, "GET", "/first")
    shown = yaml.safe_load(agent["yaml"])
    assert shown["class_path"] == ECHO
    assert set(shown["tuning"]["fields"].values()) == {"[redacted]"}


@pytest.mark.parametrize("wins", ["yaml", "database"])
async def test_of_two_agents_with_one_id_the_settings_say_which_counts(tmp_path: Path, wins: str) -> None:
    settings = {"agents": {"database": {**ON, "wins": wins}}}
    async with running_server(tmp_path, settings=settings) as server:
        assert (await call(server, "POST", "", {"yaml": entry("assistant")}))[0] == 201
        found = await agents(server)
        loser = "database" if wins == "yaml" else "yaml"
        assert (await call(server, "GET"))[1]["wins"] == wins
        assert found["assistant", loser]["hidden_by"] == wins and not found["assistant", loser]["served"]
        assert found["assistant", wins]["served"] and "hidden_by" not in found["assistant", wins]
        async with rest(server) as client:
            [agent] = (await client.get("/agents")).json()["agents"]
        assert agent["name"] == ("assistant" if wins == "yaml" else "Helper")
        await call(server, "DELETE", "/assistant")
        assert (await agents(server))["assistant", "yaml"]["served"]


async def test_what_is_exported_can_be_imported(server: RunningServer, tmp_path: Path) -> None:
    await call(server, "POST", "", {"yaml": entry("one", more="description: |\n  Two\n  lines\n")})
    await call(server, "POST", "", {"yaml": f"{{id: two, class_path: {ECHO}}}\n"})
    await call(server, "POST", "/two/disable")
    status, text = await call(server, "GET", "/export")
    assert status == 200 and text.startswith("# yaml-language-server: $schema=")
    assert "# An agent of the database." in text
    exported = yaml.safe_load(text)["agents"]
    assert [(each["id"], each.get("enabled", True)) for each in exported] == [("one", True), ("two", False)]
    await call(server, "DELETE", "/one")
    status, listed = await call(server, "POST", "/import", {"yaml": text})
    assert status == 200
    assert [(each["id"], each["enabled"]) for each in listed["agents"] if each["source"] == "database"] == [
        ("one", True),
        ("two", False),
    ]
    assert (await actions(server, "one"))[0][:2] == (3, "imported")
    assert yaml.safe_load((await call(server, "GET", "/one"))[1]["yaml"]) == exported[0]


async def test_an_import_is_refused_where_it_is_too_large_while_it_is_parsed(server: RunningServer) -> None:
    status, refused = await call(server, "POST", "/import", {"yaml": "a:\n" * 300_000})
    assert (status, refused["error"]["code"]) == (422, "agent_invalid")
    assert [(each["line"], each["message"]) for each in refused["error"]["problems"]] == [
        (25_000, "more than 50000 values")
    ]


async def test_an_import_tells_the_first_hundred_problems(server: RunningServer) -> None:
    entries = "".join(f"  - id: a{number}\n    modell: {number}\n    unknown: 1\n" for number in range(150))
    _, refused = await call(server, "POST", "/import", {"yaml": f"agents:\n{entries}"})
    assert len(refused["error"]["problems"]) == 100


async def test_an_import_with_a_problem_changes_nothing(server: RunningServer) -> None:
    good, bad = f"  - id: good\n    class_path: {ECHO}\n", "  - id: bad\n    class_path: os:system\n"
    text = f"agents:\n{good}{bad}{good}"
    status, refused = await call(server, "POST", "/import", {"yaml": text})
    assert status == 422
    assert [each["line"] for each in refused["error"]["problems"]] == [5, 6]
    assert list(await agents(server)) == [("assistant", "yaml")]
    for wrong in ("", "agents: {}", "agents: []", "[", "agents: [1]"):
        assert (await call(server, "POST", "/import", {"yaml": wrong}))[0] == 422


async def test_the_schema_is_that_of_the_catalog(server: RunningServer) -> None:
    status, schema = await call(server, "GET", "/schema")
    assert status == 200 and "class_path" in schema["$defs"]["AgentSettings"]["properties"]


async def test_without_the_setting_the_file_is_shown_and_nothing_is_written(tmp_path: Path) -> None:
    async with running_server(tmp_path) as server:
        _, listed = await call(server, "GET")
        assert [each["id"] for each in listed["agents"]] == ["assistant"] and listed["editable"] is False
        for method, path, body in (
            ("POST", "", {"yaml": entry()}),
            ("POST", "/check", {"yaml": entry()}),
            ("POST", "/import", {"yaml": "agents: []"}),
            ("PUT", "/assistant", {"yaml": entry(), "version": 1}),
            ("DELETE", "/assistant", None),
        ):
            status, refused = await call(server, method, path, body)
            assert (status, refused["error"]["code"]) == (403, "forbidden"), path


async def test_agents_of_the_database_outlast_the_server_and_each_call_is_recorded(tmp_path: Path) -> None:
    async with running_server(tmp_path, settings=SETTINGS) as server:
        await call(server, "POST", "", {"yaml": entry()})
    async with running_server(tmp_path, settings=SETTINGS) as server:
        assert await served_ids(server) == ["assistant", "helper"]
        assert await said(server, "helper") == "ok"
        async with rest(server) as client:
            reads = (await client.get("/admin/reads")).json()["reads"]
        assert f"POST {PREFIX}/admin/agents" in [each["path"] for each in reads]


async def test_what_is_no_longer_allowed_is_not_imported_and_keeps_nobody_from_serving(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_server(tmp_path, settings=SETTINGS) as server:
        await call(server, "POST", "", {"yaml": entry()})
        await call(
            server, "POST", "", {"yaml": entry("other", "agentic_backend.experts.assistant.assistant:Assistant")}
        )
    narrower = {"agents": {"database": {**ON, "classes": ["agentic_backend.experts.assistant.*"]}}}
    async with running_server(tmp_path, settings=narrower) as server:
        assert await served_ids(server) == ["assistant", "other"]
        found = (await agents(server))["helper", "database"]
        assert not found["served"] and found["problems"][0]["line"] == 4
        assert "agent of the database refused" in [record.message for record in caplog.records]
        assert (await call(server, "POST", "/helper/rollback", {"version": 1}))[0] == 422


async def test_tools_and_middleware_are_code_too_and_files_are_not_read(server: RunningServer) -> None:
    for more, told in (
        ("tools: ['os:system']\n", "'os:system' is not among"),
        ("tools: ['support.reexporting:system']\n", "'system' comes from another module"),
        ("middleware: [{name: 'subprocess:Popen'}]\n", "'subprocess:Popen' is not among"),
        ("prompt: {file: /etc/passwd}\n", "read no files"),
    ):
        status, refused = await call(server, "POST", "", {"yaml": entry(more=more)})
        assert status == 422, more
        assert told in " ".join(each["message"] for each in refused["error"]["problems"]), more


async def test_by_default_an_entry_alone_makes_an_agent_and_nothing_that_reads_the_machine(tmp_path: Path) -> None:
    async with running_server(tmp_path, settings={"agents": {"database": {"enabled": True}}}) as server:
        text = "id: alone\nprompt: Answer in rhymes.\ntools: [current_time]\n"
        assert (await call(server, "POST", "", {"yaml": text}))[0] == 201
        assert await said(server, "alone") == "ok"
        shell = "middleware: [{name: ShellToolMiddleware}]\n"
        elsewhere = "middleware: [{name: SummarizationMiddleware, args: {model: 'openai:gpt-5.5'}}]\n"
        reads = "class_path: agentic_backend.experts.documentation.documentation_expert:DocumentationExpert\n"
        for more in (shell, elsewhere, reads, "apis: [{id: none}]\n"):
            status, refused = await call(server, "POST", "", {"yaml": f"id: more\n{more}"})
            assert (status, refused["error"]["code"]) == (422, "agent_invalid"), more
