from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from agentic_backend.agents.catalog.catalog import AgentsCatalog, AgentSettings, KnownNames, read_catalog
from agentic_backend.config.yaml.located_yaml import ConfigError

MODELS = ["default", "fast"]
MCP_SERVERS = ["files", "web"]


def catalog(tmp_path: Path, content: str) -> AgentsCatalog:
    path = tmp_path / "agents.yaml"
    path.write_text(content)
    return read_catalog(path, KnownNames(MODELS, MCP_SERVERS))


def refusal(tmp_path: Path, content: str) -> str:
    with pytest.raises(ConfigError) as caught:
        catalog(tmp_path, content)
    return str(caught.value).replace(f"{tmp_path}/", "")


def told(found: AgentsCatalog) -> list[str]:
    return [f"{p.line}:{p.column}: {p.where}: {p.message}" for p in found.problems]


def good_ids(found: AgentsCatalog) -> list[str]:
    return [entry.settings.id for entry in found.entries if entry.settings]


def test_only_id_and_class_path_are_required(tmp_path: Path) -> None:
    found = catalog(tmp_path, "agents:\n  - id: one\n    class_path: some.module:Agent\n")
    assert found.problems == []
    (entry,) = found.entries
    settings = entry.settings
    assert settings is not None
    assert settings == AgentSettings(id="one", class_path="some.module:Agent")
    assert (settings.name, settings.type, settings.enabled, settings.default) == ("one", "agent", True, False)
    assert (settings.model, settings.crew, settings.tags, settings.tuning.fields) == (None, (), (), {})
    assert (settings.require_approval, settings.auto_resume) == ((), False)
    assert (settings.tuning.mcp_servers, settings.chat.starters, settings.chat.history_exchanges) == ((), (), None)
    assert set(settings.limits.model_dump().values()) == {None}


@pytest.mark.parametrize("icon", ["🦊", "1️⃣", "🇨🇭", "KI", "日本", "👩🏽‍🚀"])
def test_an_icon_is_an_emoji_or_a_few_letters(tmp_path: Path, icon: str) -> None:
    found = catalog(tmp_path, f"agents:\n  - {{id: one, class_path: 'm:n', icon: '{icon}'}}\n")
    assert [entry.settings.icon for entry in found.entries if entry.settings] == [icon]


@pytest.mark.parametrize("icon", ["", "four", "a b", "\\u202eab", "\\n", "🦊" * 13])
def test_any_other_icon_is_a_problem(tmp_path: Path, icon: str) -> None:
    found = catalog(tmp_path, f'agents:\n  - {{id: one, class_path: "m:n", icon: "{icon}"}}\n')
    assert [problem.message for problem in found.problems] == ["expected an emoji, or at most three letters"]


def test_every_key_is_read(tmp_path: Path) -> None:
    found = catalog(
        tmp_path,
        """
agents:
  - id: boss-1
    name: The boss
    icon: 👩‍💻
    description: Leads.
    tags: [one, two]
    type: leader
    crew: [a, b]
    class_path: some.module.Agent
    enabled: false
    default: true
    model: fast
    require_approval: [send, "drop_*"]
    auto_resume: true
    limits: {silence_s: 1.5, tool_s: 2, run_s: 86400, steps: 4, model_calls: 5, tool_calls: 6, tokens: 7}
    tuning:
      fields: {prompt: Be nice., depth: 3, nested: {x: [1]}}
      mcp_servers:
        - {id: files, require_tools: [read], tools: [read, write]}
        - {id: web}
    chat:
      starters: [Hello]
      history_exchanges: 0
""",
    )
    assert found.problems == []
    settings = found.entries[0].settings
    assert settings is not None
    assert (settings.icon, settings.crew) == ("👩‍💻", ("a", "b"))
    assert (settings.require_approval, settings.auto_resume) == (("send", "drop_*"), True)
    assert settings.tuning.fields == {"prompt": "Be nice.", "depth": 3, "nested": {"x": [1]}}
    assert [(use.id, use.require_tools, use.tools) for use in settings.tuning.mcp_servers] == [
        ("files", ("read",), ("read", "write")),
        ("web", (), None),
    ]
    assert settings.chat.history_exchanges == 0
    assert list(settings.limits.model_dump().values()) == [1.5, 2, 86400, 4, 5, 6, 7]
    with pytest.raises(ValidationError):
        settings.name = "other"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("require", "asked", "unasked"),
    [
        ((), [], ["send", "all", ""]),
        ("all", ["send", "", "All"], []),
        (("send",), ["send"], ["Send", "send_all", "resend"]),
        (("send*", "?rop", "[xy]"), ["send", "send_all", "drop", "x"], ["Send", "drops", "rop", "z"]),
    ],
)
def test_tools_are_named_or_meant_by_a_pattern(require: Any, asked: list[str], unasked: list[str]) -> None:
    settings = AgentSettings(id="x", class_path="m:n", require_approval=require)
    assert [settings.requires_approval_of(tool) for tool in [*asked, *unasked]] == [
        *[True] * len(asked),
        *[False] * len(unasked),
    ]
    assert set(settings.approved_names) <= {"send"}


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ("{id: x, class_paht: 'm:n'}", "class_paht: unknown key 'class_paht'; did you mean 'class_path'?"),
        ("{id: x, class_path: 'm:n', nmae: y}", "nmae: unknown key 'nmae'; did you mean 'name'?"),
        ("{id: 5, class_path: 'm:n'}", "id: expected an id of at most 64 letters, digits, '_', '.', '-'"),
        ("{id: 'a b', class_path: 'm:n'}", "id: expected an id of at most 64 letters"),
        ("{id: x, class_path: 'm n'}", "class_path: expected a path such as 'package.module:name', found 'm n'"),
        ("{id: x, class_path: m}", "class_path: expected a path such as 'package.module:name', found 'm'"),
        ("{id: x, class_path: 'm:n', type: boss}", "type: expected 'agent' or 'leader', found 'boss'"),
        ("{id: x, class_path: 'm:n', crew: [y]}", "crew: only an agent of type 'leader' has a crew"),
        (
            "{id: x, class_path: 'm:n', stream: finals}",
            "stream: expected 'all', 'final_only' or a mapping with the key",
        ),
        ("{id: x, class_path: 'm:n', stream: {node: [a]}}", "stream.node: unknown key 'node'; did you mean 'nodes'?"),
        ("{id: x, class_path: 'm:n', require_approval: [all, x]}", "require_approval: 'all' stands alone"),
        ("{id: x, class_path: 'm:n', require_approval: [all]}", "require_approval: 'all' stands alone"),
        (
            "{id: x, class_path: 'm:n', require_approval: send}",
            "require_approval: expected a list of tools' names and patterns, or the word 'all', found text",
        ),
        ("{id: x, class_path: 'm:n', require_approval: ['']}", "require_approval"),
        ("{id: x, class_path: 'm:n', require_approval: [7]}", "require_approval"),
        ("{id: x, class_path: 'm:n', limits: {steps: 0}}", "limits.steps: expected an integer"),
        ("{id: x, class_path: 'm:n', limits: {run_s: 0}}", "limits.run_s: expected a number above 0"),
        ("{id: x, class_path: 'm:n', limits: {token: 5}}", "limits.token: unknown key 'token'; did you mean 'tokens'?"),
        ("{id: x, class_path: 'm:n', auto_resume: 1}", "auto_resume: expected true or false, found 1"),
        ("{id: x, class_path: 'm:n', model: fats}", "model: there is no model 'fats', nor is this a model such as"),
        ("{id: x, class_path: 'm:n', model: 'A B:c'}", "model: there is no model 'A B:c'"),
        ("{id: x, class_path: 'm:n', chat: {history_exchanges: -1}}", "chat.history_exchanges: expected an integer of"),
        (
            "{id: x, class_path: 'm:n', tuning: {mcp_servers: [{}]}}",
            "tuning.mcp_servers[0].id: the key 'id' is required",
        ),
        (
            "{id: x, class_path: 'm:n', tuning: {feilds: {}}}",
            "tuning.feilds: unknown key 'feilds'; did you mean 'fields'?",
        ),
        ("{id: x, id: y, class_path: 'm:n'}", "id: duplicate key 'id', first on line 3"),
        ("{id: x, class_path: !!int abc}", "class_path: cannot be read as int"),
        ("just text", " expected a mapping, found text"),
    ],
)
def test_a_bad_entry_is_told_and_keeps_no_other_away(tmp_path: Path, entry: str, problem: str) -> None:
    content = f"agents:\n- {{id: first, class_path: 'm:n'}}\n- {entry}\n- {{id: last, class_path: 'm:n'}}\n"
    found = catalog(tmp_path, content)
    assert good_ids(found) == ["first", "last"]
    assert any(line.startswith("3:") and f"agents[1].{problem}".replace(". ", ": ") in line for line in told(found))


def test_a_near_miss_of_a_model(tmp_path: Path) -> None:
    found = catalog(tmp_path, "agents:\n- id: x\n  class_path: m:n\n  model: fats\n")
    assert told(found) == [
        "4:10: agents[0].model: there is no model 'fats', nor is this a model such as 'openai:gpt-5.5'; "
        "did you mean 'fast'?"
    ]


def test_an_mcp_server_that_the_settings_have_not_is_told(tmp_path: Path) -> None:
    found = catalog(
        tmp_path,
        "agents:\n- id: x\n  class_path: m:n\n  tuning:\n    mcp_servers:\n    - id: web\n    - id: flies\n"
        "- {id: y, class_path: 'm:n', tuning: {mcp_servers: [{id: maps}]}}\n",
    )
    assert told(found) == [
        "7:11: agents[0].tuning.mcp_servers[1].id: there is no MCP server 'flies'; did you mean 'files'?",
        "8:58: agents[1].tuning.mcp_servers[0].id: there is no MCP server 'maps'; the settings have files, web",
    ]
    assert good_ids(found) == []


@pytest.mark.parametrize("key", ["command: sh", "url: 'http://x/'", "transport: stdio", "env: {}"])
def test_an_entry_can_not_define_an_mcp_server(tmp_path: Path, key: str) -> None:
    entry = f"{{id: x, class_path: 'm:n', tuning: {{mcp_servers: [{{id: web, {key}}}]}}}}"
    [problem] = told(catalog(tmp_path, f"agents:\n- {entry}\n"))
    assert "unknown key" in problem


def test_a_model_of_a_provider_need_not_be_named_in_the_settings(tmp_path: Path) -> None:
    found = catalog(tmp_path, "agents:\n- {id: x, class_path: 'm:n', model: 'openai:gpt-5.5'}\n")
    assert found.problems == []


@pytest.mark.parametrize("first", ["{id: twin, class_path: 'm:n'}", "{id: twin}"])
def test_the_later_of_two_equal_ids_is_bad(tmp_path: Path, first: str) -> None:
    found = catalog(tmp_path, f"agents:\n- {first}\n- class_path: m:n\n  id: twin\n")
    assert found.entries[1].settings is None
    assert told(found)[-1] == "4:7: agents[1].id: the id 'twin' is taken by the agent on line 2"


def test_the_id_of_a_bad_entry_is_read_where_it_can_be(tmp_path: Path) -> None:
    found = catalog(tmp_path, "agents:\n- {id: x, class_path: m}\n- {id: [x], class_path: 'm:n'}\n- text\n")
    assert [(entry.id, entry.settings) for entry in found.entries] == [("x", None), (None, None), (None, None)]


def test_anchors_may_be_shared_by_entries(tmp_path: Path) -> None:
    content = "agents:\n- &one {id: one, class_path: 'm:n', tags: [t]}\n- {<<: *one, id: two}\n"
    found = catalog(tmp_path, content)
    assert found.problems == []
    assert [entry.settings.tags for entry in found.entries if entry.settings] == [("t",), ("t",)]


def test_another_key_at_the_top_is_told_and_nothing_more(tmp_path: Path) -> None:
    found = catalog(tmp_path, "agnets: 1\nagents:\n- {id: x, class_path: 'm:n'}\n")
    assert good_ids(found) == ["x"]
    assert told(found) == ["1:1: agnets: unknown key 'agnets'; only 'agents' stands here"]


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("agents: [", "agents.yaml:1:10: is not YAML"),
        ("- id: x", "agents.yaml:1:1: expected a mapping of keys to values"),
        ("", "agents.yaml:1:1: agents: expected a list of agents under the key 'agents'"),
        ("agents:\n", "agents.yaml:1:8: agents: expected a list of agents"),
        ("agents: {id: x}", "agents.yaml:1:9: agents: expected a list of agents"),
    ],
)
def test_a_file_without_a_list_of_agents_is_refused(tmp_path: Path, content: str, text: str) -> None:
    assert refusal(tmp_path, content).startswith(text)


@pytest.mark.parametrize(("word", "shown"), [("off", "false"), ("12", "12"), ("2024-01-01", "2024-01-01")])
def test_an_id_that_yaml_reads_as_no_text_is_one_problem(tmp_path: Path, word: str, shown: str) -> None:
    found = catalog(tmp_path, f"agents:\n  - id: {word}\n    class_path: some.module:Agent\n")
    [problem] = told(found)
    assert problem.startswith("2:9: agents[0].id: expected an id of at most 64 letters")
    assert problem.endswith(f"found {shown}; put it in quotes")


def test_an_unknown_chat_profile_is_a_problem_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "catalog.yaml"
    path.write_text("agents:\n  - id: a\n    class_path: a:b\n    chat: {profile: compcat}\n")
    [problem] = read_catalog(path, KnownNames(["default"], chat_profiles=["default", "compact"])).problems
    assert str(problem).endswith(
        ":4:21: agents[0].chat.profile: there is no chat profile 'compcat'; did you mean 'compact'?"
    )
