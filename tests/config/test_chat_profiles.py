import json
import re
from pathlib import Path

import pytest

from agentic_backend.config.loading import load_chat_profiles
from agentic_backend.config.settings import Settings
from agentic_backend.config.topics.chat_profiles import BUILT_IN_PROFILES, ChatProfile, ChatProfiles, read_chat_profiles
from agentic_backend.config.yaml.located_yaml import ConfigError
from agentic_backend.errors import BadFrame

DOCUMENT = (Path(__file__).parents[2] / "docs" / "policy.md").read_text()
SHIPPED = Path(__file__).parents[2] / "config" / "chat_profiles.yaml"
MODELS = {"default", "small"}


def read(tmp_path: Path, content: str) -> ChatProfiles:
    path = tmp_path / "chat_profiles.yaml"
    path.write_text(content)
    return read_chat_profiles(path, MODELS)


def refusals(tmp_path: Path, content: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, content)
    return [str(problem).removeprefix(f"{tmp_path}/chat_profiles.yaml:") for problem in caught.value.problems]


@pytest.mark.parametrize(
    ("name", "numbers"),
    [
        ("default", (2_000, 10, 500, 800)),
        ("long_context", (4_000, 20, 800, 1_500)),
        ("compact", (1_000, 5, 300, 500)),
    ],
)
def test_three_profiles_are_built_in(name: str, numbers: tuple[int, ...]) -> None:
    profile = BUILT_IN_PROFILES.named(name)
    assert numbers == (
        profile.compaction_threshold_tokens,
        profile.max_history_turns,
        profile.summarization_max_tokens,
        profile.reserve_tokens_for_history,
    )
    assert profile.include_summary_in_context and profile.summary_position == "before_history"


def test_the_shipped_file_says_what_is_built_in() -> None:
    assert read_chat_profiles(SHIPPED, MODELS) == BUILT_IN_PROFILES


def test_a_file_adds_profiles_and_changes_values_of_built_in_ones(tmp_path: Path) -> None:
    profiles = read(
        tmp_path,
        "profiles:\n  compact: {max_history_turns: 3}\n"
        "  tutor: {summarization_model: small, summary_position: system_prompt, instructions: Ask back.}\n"
        "default_profile: tutor\n",
    )
    assert profiles.names == ["compact", "default", "long_context", "tutor"]
    compact = profiles.named("compact")
    assert (compact.max_history_turns, compact.compaction_threshold_tokens) == (3, 1_000)
    tutor = profiles.named(None)
    assert (tutor.summarization_model, tutor.summary_position, tutor.instructions) == (
        "small",
        "system_prompt",
        "Ask back.",
    )


def test_a_session_whose_profile_is_gone_gets_the_default_one() -> None:
    assert BUILT_IN_PROFILES.named("gone") is BUILT_IN_PROFILES.named("default")


def test_an_older_position_of_the_summary_is_accepted(tmp_path: Path) -> None:
    profiles = read(tmp_path, "profiles: {default: {summary_position: before_retrieval}}\n")
    assert profiles.named("default").summary_position == "before_history"


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (
            "profiles:\n  compact:\n    max_turns: 3\n",
            "3:5: profiles.compact.max_turns: unknown key 'max_turns'; did you mean 'max_history_turns'?",
        ),
        (
            "profiles:\n  compact: {max_history_turns: 0}\n",
            "2:32: profiles.compact.max_history_turns: expected an integer from 1 to 10000 or null, found 0",
        ),
        (
            "profiles:\n  own: {summary_position: after}\n",
            "2:27: profiles.own.summary_position: expected 'before_history' or 'system_prompt', found 'after'",
        ),
        (
            "profiles:\n  own: {summarization_model: smal}\n",
            "2:30: profiles.own.summarization_model: there is no model 'smal'; did you mean 'small'?",
        ),
        (
            "default_profile: compcat\n",
            "1:18: default_profile: there is no chat profile 'compcat'; did you mean 'compact'?",
        ),
        ("profiles: [compact]\n", "1:11: profiles: expected a mapping, found a list"),
        ("profiles:\n  compact: 5\n", "2:12: profiles.compact: expected a mapping, found 5"),
    ],
)
def test_problems_name_their_place(tmp_path: Path, content: str, told: str) -> None:
    assert refusals(tmp_path, content) == [told]


def test_a_client_is_told_which_profiles_there_are() -> None:
    BUILT_IN_PROFILES.check(None)
    BUILT_IN_PROFILES.check("compact")
    with pytest.raises(BadFrame, match=r"^chat_profile: .*the profiles are compact, default, long_context$"):
        BUILT_IN_PROFILES.check("brief")


def test_the_file_is_found_in_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert load_chat_profiles(Settings()) == BUILT_IN_PROFILES
    Path("config").mkdir()
    Path("config/chat_profiles.yaml").write_text("default_profile: compact\n")
    assert load_chat_profiles(Settings()).default_name == "compact"
    own = tmp_path / "own.yaml"
    own.write_text("default_profile: long_context\n")
    assert load_chat_profiles(Settings(chat_profiles={"file": own})).default_name == "long_context"


def test_the_documentation_has_the_values_of_the_built_in_profiles() -> None:
    rows = [[cell.strip(" `") for cell in line.split("|")[1:-1]] for line in DOCUMENT.splitlines() if line[:3] == "| `"]
    told = {row[0]: row[1:4] for row in rows if len(row) == 5}
    for name in ChatProfile.model_fields.keys() - {"description"}:
        values = [getattr(BUILT_IN_PROFILES.named(profile), name) for profile in ("default", "long_context", "compact")]
        shown = ["none" if value == "" else value if isinstance(value, str) else json.dumps(value) for value in values]
        assert told[name] == shown


def test_the_example_in_the_documentation_is_valid(tmp_path: Path) -> None:
    [example] = re.findall(r"```yaml\n(profiles:.*?)```", DOCUMENT, re.DOTALL)
    profiles = read(tmp_path, example)
    assert profiles.default_name == "tutor" and profiles.named("default").compaction_threshold_tokens == 2_000
