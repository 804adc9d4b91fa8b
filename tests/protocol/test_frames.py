"""Client frames are strict to the last field, and an error names the field and never a value."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentic_backend.errors import BadFrame
from agentic_backend.protocol.frames import (
    Ask,
    Authenticate,
    ClientFrame,
    Decision,
    Follow,
    HumanDecisions,
    HumanResume,
    Ping,
    Stop,
    Unfollow,
    validate_frame,
)

SHA = "0f" * 32
DECISION = {"call_id": "c1", "args_sha256": SHA, "action": "edit", "message": "why", "args": {"a": None}}
PAYLOAD = {"decisions": [DECISION], "answers": {"i1": "left", "i2": None}}
ASK = {
    "message": "hello",
    "session_id": "s1",
    "agent_id": "assistant",
    "client_exchange_id": "x1",
    "mode": "chat",
    "attachments": [],
    "history": [],
    "chat_profile": "default",
    "scope": {"assignment": "essay-3"},
    "runtime_context": {"place": {"of": ["nested", None]}},
    "access_token": "token-1",
    "refresh_token": "token-2",
}
# Every frame with every field that it has.
FULL: dict[str, dict[str, Any]] = {
    "authenticate": {"access_token": "token-1", "refresh_token": "token-2"},
    "ask": ASK,
    "human_resume": {
        "session_id": "s1",
        "exchange_id": "e1",
        "payload": PAYLOAD,
        "access_token": "token-1",
        "refresh_token": "token-2",
    },
    "stop": {"session_id": "s1", "exchange_id": "e1"},
    "follow": {"session_id": "s1", "exchange_id": "e1", "after_seq": 17},
    "unfollow": {"session_id": "s1"},
    "ping": {},
}
MODELS = {
    "authenticate": Authenticate,
    "ask": Ask,
    "human_resume": HumanResume,
    "stop": Stop,
    "follow": Follow,
    "unfollow": Unfollow,
    "ping": Ping,
}
REQUIRED = {
    "authenticate": ["access_token"],
    "ask": ["message"],
    "human_resume": ["session_id", "exchange_id", "payload"],
    "unfollow": ["session_id"],
}
ID = [5, True, ["x"], {"a": 1}, "", "i" * 129]
TOKEN = [5, True, [], {}, "", "t" * 16_385]
OBJECT = [5, True, "x", [1]]
WRONG: dict[str, dict[str, list[Any]]] = {
    "authenticate": {"access_token": [None, *TOKEN], "refresh_token": TOKEN},
    "ask": {
        "message": [None, 5, True, ["x"], {"text": "x"}, ""],
        "session_id": ID,
        "agent_id": ID,
        "client_exchange_id": ID,
        "attachments": [5, "a1", {}, [5], [""], ["a" * 129], ["a"] * 101],
        "history": [5, "a", {}, [5], [{}], [{"role": "system", "content": "a"}], [{"role": "user", "content": ""}]],
        "mode": [5, "", "Chat", "stream"],
        "chat_profile": ID,
        "scope": [5, "x", ["x"], {"planet": "mars"}, {"class": 5}, {"class": ""}],
        "runtime_context": OBJECT,
        "access_token": TOKEN,
        "refresh_token": TOKEN,
    },
    "human_resume": {
        "session_id": [None, *ID],
        "exchange_id": [None, *ID],
        "payload": [None, *OBJECT],
        "payload.decisions": [5, "x", {}, [DECISION] * 257],
        "payload.answers": [*OBJECT, {f"i{number}": "x" for number in range(257)}],
        "payload.decisions.0": [None, *OBJECT],
        "payload.decisions.0.call_id": [None, *ID],
        "payload.decisions.0.args_sha256": [None, 5, "", SHA.upper(), SHA[1:], SHA + "\n", "g" * 64],
        "payload.decisions.0.action": [None, 5, "", "approved"],
        "payload.decisions.0.message": [5, ["x"], "m" * 4_001],
        "payload.decisions.0.args": OBJECT,
        "access_token": TOKEN,
        "refresh_token": TOKEN,
    },
    "stop": {"session_id": ID, "exchange_id": ID},
    "follow": {
        "session_id": ID,
        "exchange_id": ID,
        "after_seq": ["17", 1.5, True, -1, 2**53],
    },
    "unfollow": {"session_id": [None, *ID]},
}


def parse_frame(data: str) -> ClientFrame:
    return validate_frame(json.loads(data))


def refusal(frame: dict[str, Any]) -> str:
    with pytest.raises(BadFrame) as refused:
        parse_frame(json.dumps(frame))
    return refused.value.content


def replaced(frame: dict[str, Any], path: str, value: object) -> dict[str, Any]:
    """A copy of `frame` with `value` at the dotted `path`."""
    copy = json.loads(json.dumps(frame))
    *parents, last = path.split(".")
    place: Any = copy
    for name in parents:
        place = place[int(name) if name.isdigit() else name]
    place[int(last) if last.isdigit() else last] = value
    return dict(copy)


WRONG_VALUES = [
    (kind, path, value) for kind, fields in WRONG.items() for path, values in fields.items() for value in values
]


@pytest.mark.parametrize("kind", FULL)
def test_a_full_frame_is_taken_as_it_is(kind: str) -> None:
    frame = parse_frame(json.dumps({"type": kind} | FULL[kind]))
    assert type(frame) is MODELS[kind]
    dumped = frame.model_dump()
    assert dumped == {"type": kind} | FULL[kind]


def test_the_table_of_wrong_values_has_every_field_of_every_frame() -> None:
    for kind, model in MODELS.items():
        assert {"type", *WRONG.get(kind, {})} >= set(model.model_fields), kind
        assert {"type", *FULL[kind]} == set(model.model_fields), kind
    assert set(DECISION) == set(Decision.model_fields)


@pytest.mark.parametrize(("kind", "field"), [(kind, field) for kind, fields in REQUIRED.items() for field in fields])
def test_a_missing_field_is_named(kind: str, field: str) -> None:
    frame = {name: value for name, value in FULL[kind].items() if name != field}
    assert refusal({"type": kind} | frame) == f"{field}: Field required"


@pytest.mark.parametrize(("kind", "path", "value"), WRONG_VALUES)
def test_a_wrong_value_is_refused_by_the_name_of_its_field(kind: str, path: str, value: object) -> None:
    assert refusal({"type": kind} | replaced(FULL[kind], path, value)).startswith(f"{path}")


@pytest.mark.parametrize("kind", FULL)
def test_an_unknown_field_is_named(kind: str) -> None:
    assert refusal({"type": kind, "wizard": 1} | FULL[kind]) == "wizard: unknown field"


def test_an_unknown_field_of_a_decision_is_named_with_its_place() -> None:
    frame = replaced(FULL["human_resume"], "payload.decisions.0.wizard", 1)
    assert refusal({"type": "human_resume"} | frame) == "payload.decisions.0.wizard: unknown field"
    frame = replaced(FULL["human_resume"], "payload.wizard", 1)
    assert refusal({"type": "human_resume"} | frame) == "payload.wizard: unknown field"


@pytest.mark.parametrize("kind", ["final", "Ask", "", "ask ", 5, True, ["ask"], {"ask": 1}])
def test_an_unknown_type_is_refused(kind: object) -> None:
    assert refusal({"type": kind, "message": "hello"}) == "type: unknown type of frame"


def test_a_frame_without_type_is_an_ask() -> None:
    frame = parse_frame('{"message": "hello"}')
    assert frame == Ask(message="hello")
    assert (frame.mode, frame.chat_profile, frame.runtime_context) == ("chat", None, {})
    assert parse_frame('{"type": null, "message": "hello"}') == frame
    assert refusal({}) == "message: Field required"


@pytest.mark.parametrize(("kind", "fields"), [(kind, fields) for kind, fields in FULL.items() if fields])
def test_null_is_accepted_wherever_a_key_may_be_absent(kind: str, fields: dict[str, Any]) -> None:
    required = {name: fields[name] for name in REQUIRED.get(kind, ["session_id"])}
    nulls = dict.fromkeys(fields)
    assert parse_frame(json.dumps({"type": kind} | nulls | required)) == parse_frame(
        json.dumps({"type": kind} | required)
    )


def test_null_is_accepted_within_what_a_person_decides() -> None:
    frame = {"type": "human_resume", "session_id": "s1", "exchange_id": "e1"}
    for payload in ({"decisions": None, "answers": None}, {}):
        assert parse_frame(json.dumps(frame | {"payload": payload})).payload == HumanDecisions()  # type: ignore[union-attr]
    answered = parse_frame(json.dumps(frame | {"payload": {"answers": {"i1": None}}}))
    assert answered.payload.answers == {"i1": None}  # type: ignore[union-attr]


def test_null_does_not_hide_an_unknown_field_or_another_name() -> None:
    assert refusal({"message": "hello", "wizard": None}) == "wizard: unknown field"
    for ids in ({"agent_id": None, "agent_name": "echo"}, {"agent_id": "echo", "agent_name": None}):
        assert parse_frame(json.dumps({"message": "hello"} | ids)) == Ask(message="hello", agent_id="echo")


def test_agent_name_is_accepted_for_agent_id() -> None:
    assert parse_frame('{"message": "hello", "agent_name": "echo"}') == Ask(message="hello", agent_id="echo")
    assert refusal({"message": "hello", "agent_name": 5}).startswith("agent_name:")
    assert refusal({"message": "hello", "agent_id": "a", "agent_name": "b"}).startswith("agent_name:")


def test_a_query_names_no_session() -> None:
    assert refusal({"message": "hello", "mode": "query", "session_id": "s1"}).startswith("session_id:")


@pytest.mark.parametrize("kind", ["stop", "follow"])
def test_a_target_must_be_named(kind: str) -> None:
    assert refusal({"type": kind}).startswith("session_id:")
    assert parse_frame(json.dumps({"type": kind, "exchange_id": "e1"})).exchange_id == "e1"  # type: ignore[union-attr]


def test_a_long_or_strange_field_name_is_shown_short_and_escaped() -> None:
    content = refusal({"type": "ping", "\x1b[31m\u202e" + "n" * 5000: 1})
    assert len(content) < 200
    assert content.isascii() and content.isprintable()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
FIELDS = sorted({field for fields in FULL.values() for field in fields} | {"type", "agent_name"})
LIKELY = st.one_of(JSON, st.sampled_from([*FULL, "chat", "query", "s1", SHA]), st.just(PAYLOAD), st.just(DECISION))
FRAMES = st.dictionaries(st.sampled_from(FIELDS), LIKELY) | st.dictionaries(
    st.sampled_from(FIELDS) | st.text(), LIKELY
).map(lambda fields: fields | {"type": "human_resume"})
SECRET = "canary-5fd1"


@given(FRAMES)
def test_random_fields_raise_nothing_but_bad_frame(frame: dict[str, Any]) -> None:
    try:
        parse_frame(json.dumps(frame))
    except BadFrame as refused:
        assert refused.content


def _canaries(value: Any) -> Any:
    """`value` with a canary in the place of every text, its keys as they are."""
    if isinstance(value, str):
        return SECRET + value
    if isinstance(value, dict):
        return {key: _canaries(inner) for key, inner in value.items()}
    return [_canaries(inner) for inner in value] if isinstance(value, list) else value


@given(FRAMES, st.sampled_from([*FULL, None]))
def test_a_refusal_never_shows_a_value(frame: dict[str, Any], kind: str | None) -> None:
    frame = _canaries(frame)
    if kind is not None:
        frame["type"] = kind
    try:
        parse_frame(json.dumps(frame))
    except BadFrame as refused:
        assert SECRET not in refused.content


def test_tokens_and_texts_are_in_no_repr() -> None:
    frames = [
        Authenticate(access_token=SECRET, refresh_token=SECRET),
        Ask(message=SECRET, access_token=SECRET, refresh_token=SECRET, runtime_context={"a": SECRET}),
        Decision(call_id="c1", args_sha256=SHA, action="edit", message=SECRET, args={"a": SECRET}),
        HumanDecisions(answers={"i1": SECRET}),
        HumanResume(
            session_id="s1",
            exchange_id="e1",
            payload=HumanDecisions(),
            access_token=SECRET,
            refresh_token=SECRET,
        ),
    ]
    assert SECRET not in repr(frames)
