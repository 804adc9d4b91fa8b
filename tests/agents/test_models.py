"""ChatModels: which model a name leads to, and what is said where it leads to none."""

import pytest
from langchain_openai import ChatOpenAI

from agentic_backend.agents.models.chat_models import ChatModels, ModelUnavailable, build_model, load_models
from agentic_backend.agents.models.provider_responses import bounded_clients
from agentic_backend.config.settings import ModelSettings
from agentic_backend.errors import AgentUnavailable
from agentic_backend.offline.model import OfflineChatModel

KEY = "sk-of-the-tests-0123456789abcdef"


@pytest.fixture(autouse=True)
def no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_ADMIN_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


def test_auto_is_the_offline_model_without_a_key() -> None:
    assert isinstance(build_model(ModelSettings(), "gpt-5.4-mini"), OfflineChatModel)


@pytest.mark.parametrize("key", ["", KEY])
def test_auto_is_openai_with_a_key_that_is_not_empty(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", key)
    model = build_model(ModelSettings(), "gpt-5.4-mini")
    assert isinstance(model, ChatOpenAI if key else OfflineChatModel)
    if isinstance(model, ChatOpenAI):
        assert model.model_name == "gpt-5.4-mini"
        assert KEY not in repr(model)


def test_offline_stays_offline_with_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    model = build_model(ModelSettings(model="offline", options={"words_per_second": 7}), "gpt-5.4-mini")
    assert isinstance(model, OfflineChatModel)
    assert model.words_per_second == 7


@pytest.mark.parametrize(("model", "unset"), [("offline", None), ("openai:gpt-4o", 128_000)])
def test_the_settings_tell_the_context_window_or_the_models_profile_does(model: str, unset: int | None) -> None:
    options = {} if model == "offline" else {"api_key": KEY}
    for told in (None, 9_000):
        built = build_model(ModelSettings(model=model, options=options, context_tokens=told), "gpt-5.4-mini")
        assert (built.profile or {}).get("max_input_tokens") == (told or unset)


def test_a_model_is_built_with_its_options(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    model = build_model(ModelSettings(model="openai:gpt-4.1", options={"temperature": 0.5}), "gpt-5.4-mini")
    assert isinstance(model, ChatOpenAI)
    assert (model.model_name, model.temperature) == ("gpt-4.1", 0.5)


@pytest.mark.parametrize(
    ("model", "options", "told"),
    [
        ("openai:gpt-5", {}, "OPENAI_API_KEY"),
        ("groq:llama", {}, "langchain-groq"),
        ("nobody:model", {}, "model provider"),
        ("openai:gpt-5", {"max_retries": "many", "api_key": KEY}, "max_retries"),
        ("offline", {"words_per_second": -1}, "words_per_second"),
    ],
)
def test_a_model_that_cannot_be_built_says_why_without_its_secrets(
    model: str, options: dict[str, object], told: str
) -> None:
    settings = {"default": ModelSettings(), "mine": ModelSettings(model=model, options=options)}
    with pytest.raises(ModelUnavailable) as refusal:
        load_models(settings, "gpt-5.4-mini")
    text = str(refusal.value)
    assert text.startswith(f"models.mine: the model '{model}' can't be built: ")
    assert told in text
    assert KEY not in text and "\n" not in text and "pydantic" not in text


def test_a_model_is_got_by_its_name_or_as_the_default() -> None:
    models = load_models({"default": ModelSettings(), "other": ModelSettings(model="offline")}, "gpt-5.4-mini")
    assert models.get() is models.get(None) is models.get("default")
    assert models.get("other") is not models.get("default")
    assert not models.problems


def test_models_that_catalog_entries_name_are_built_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    named = {"default": ModelSettings(model="offline")}
    models = load_models(named, "gpt-5.4-mini", {"default", "openai:gpt-5", "groq:llama"})
    assert isinstance(models.get("default"), OfflineChatModel)
    assert isinstance(models.get("openai:gpt-5"), ChatOpenAI)
    with pytest.raises(AgentUnavailable, match="'groq:llama'"):
        models.get("groq:llama")
    [problem] = models.problems
    assert "groq:llama" in problem and "langchain-groq" in problem


def test_a_name_that_nobody_knows_makes_the_agent_unavailable() -> None:
    with pytest.raises(AgentUnavailable, match="'absent'"):
        ChatModels({"default": OfflineChatModel()}).get("absent")


def test_a_provider_that_is_reached_by_a_proxy_of_its_own_can_be_built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-tests")
    proxied = ModelSettings(model="openai:gpt-5.4-mini", options={"openai_proxy": "http://127.0.0.1:9"})
    assert build_model(proxied, "gpt-5.4-mini").name is None


@pytest.mark.parametrize("model", ["offline", "openai:gpt-5.4-mini", "anthropic:claude-sonnet-4-5"])
def test_models_of_one_package_share_their_class(model: str) -> None:
    options = {} if model == "offline" else {"api_key": KEY}
    first, second = (build_model(ModelSettings(model=model, options=options), "") for _ in range(2))
    assert type(first) is type(second)
    assert any(each.__module__.startswith("agentic_backend.agents.models") for each in type(first).__mro__)


def test_models_share_the_trusted_certificates() -> None:
    clients = [client for _ in range(2) for client in bounded_clients().values()]
    assert len({client._transport._pool._ssl_context for client in clients}) == 1
