"""The JSON Schemas of the protocol: complete, with descriptions and examples, and true of frames and events."""

import re
from copy import deepcopy
from pathlib import PurePath
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from support.contract import DOCS
from support.json_places import places
from support.schema_checks import SCHEMAS, problems, validator

from agentic_backend.errors import BadFrame
from agentic_backend.protocol.events import Delta, Event, ExchangeEvent
from agentic_backend.protocol.frames import validate_frame
from agentic_backend.protocol.messages import Channel
from agentic_backend.transports.contract.examples import EVENTS, FRAMES

Json = dict[str, Any]

MODELS = {name.removesuffix(".json"): schema for name, schema in SCHEMAS.items() if "properties" in schema}
FRAME = validator("ClientFrame")
EVENT = validator("ServerEvent")


def subclasses(base: type) -> set[type]:
    return {found for direct in base.__subclasses__() for found in {direct, *subclasses(direct)}}


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_schema_is_one_and_all_that_it_names_is_there(name: str) -> None:
    Draft202012Validator.check_schema(SCHEMAS[name])
    named = re.findall(r"'\$ref': '([^']+)'", str(SCHEMAS[name]))
    assert {str(PurePath(name).parent / other) for other in named} <= SCHEMAS.keys()


def test_no_other_schema_is_published() -> None:
    files = (DOCS / "schemas").rglob("*.json")
    assert {file.relative_to(DOCS / "schemas").as_posix() for file in files} == SCHEMAS.keys()


def test_every_event_has_its_schema() -> None:
    assert {kind.__name__ for kind in subclasses(Event) - {ExchangeEvent}} <= MODELS.keys()
    assert {type(event) for event in EVENTS} == subclasses(Event) - {ExchangeEvent}


@pytest.mark.parametrize("name", SCHEMAS)
def test_every_type_is_described_and_so_is_every_field_but_its_type(name: str) -> None:
    assert SCHEMAS[name]["description"]
    fields = SCHEMAS[name].get("properties", {})
    assert [field for field in fields if field != "type" and not fields[field].get("description")] == []


@pytest.mark.parametrize("name", MODELS)
def test_every_model_has_examples_which_are_valid(name: str) -> None:
    shown = MODELS[name]["examples"]
    closed = validator(name, closed=True)
    assert [problems(closed, example) for example in shown] == [[]] * len(shown)


@pytest.mark.parametrize("name", [name for name in MODELS if "/" not in name])
def test_every_field_of_the_protocol_is_in_an_example(name: str) -> None:
    shown = MODELS[name]["examples"]
    older = {field for field, schema in MODELS[name]["properties"].items() if schema.get("deprecated")}
    assert MODELS[name]["properties"].keys() - older == {field for example in shown for field in example}


def test_frames_are_closed_and_what_the_server_sends_is_open() -> None:
    sent = {"Decision", "HumanDecisions", "PastMessage", *(type(frame).__name__ for frame in FRAMES)}
    assert {name for name, schema in MODELS.items() if schema.get("additionalProperties") is False} == sent


def test_what_is_left_out_of_an_event_is_never_null_there() -> None:
    event = Delta(session_id=None, exchange_id="e", seq=1, block=0, channel=Channel.FINAL, text="t")
    sent = event.model_dump(mode="json")
    assert problems(EVENT, sent) == []
    assert problems(EVENT, sent | {"of": "a later version"}) == []
    assert problems(EVENT, sent | {"text": None})
    assert problems(validator("Stream"), {**MODELS["Stream"]["examples"][0], "block": None})
    assert problems(validator("ServerEvent", closed=True), sent | {"of": "a later version"})


def test_an_error_of_an_exchange_is_no_refusal_of_a_frame() -> None:
    [error, refusal] = (MODELS[name]["examples"][0] for name in ("ExchangeError", "FrameRefused"))
    assert (problems(EVENT, error), problems(EVENT, refusal)) == ([], [])
    assert problems(validator("FrameRefused"), error)
    assert problems(EVENT, {name: value for name, value in error.items() if name != "exchange_id"})


# Whatever is put in the place of a value. The server takes no number with a fraction of zero for a whole one.
_VALUES = (None, True, -1, 0, 7, 0.5, "", "x", "query", "chat", "stop", "x" * 129, "x" * 16_385, [], ["x"], [None], {})
_OBJECTS = ({"class": "5b"}, {"class": ""}, {"colour": "red"}, {"decisions": [{}]}, {"answers": {"i": None}}, {"x": 1})
RUBBISH = st.sampled_from([*_VALUES, *_OBJECTS])
VALID = [example for name, schema in MODELS.items() if name in {"Ask", "Follow"} for example in schema["examples"]] + [
    schema["examples"][-1] for schema in MODELS.values() if schema.get("additionalProperties") is False
]


ALL_FIELDS = sorted({"unknown", *(field for schema in MODELS.values() for field in schema["properties"])})


@st.composite
def frames(draw: st.DrawFn) -> Json:
    """A valid frame of which some values are missing, others, or added."""
    frame: Json = deepcopy(draw(st.sampled_from(VALID)))
    for _ in range(draw(st.integers(0, 3))):
        container, key = draw(st.sampled_from(places(frame) or [(frame, "message")]))
        if draw(st.booleans()):
            key = draw(st.sampled_from(ALL_FIELDS)) if isinstance(container, dict) else key
            container[key] = deepcopy(draw(RUBBISH))
        elif container:
            del container[key]
    return frame


def accepted(frame: Json) -> bool:
    try:
        validate_frame(frame)
    except BadFrame:
        return False
    return True


@given(frames())
def test_the_server_accepts_a_frame_if_and_only_if_its_schema_does(frame: Json) -> None:
    assert accepted(frame) == (not problems(FRAME, frame)), frame


@pytest.mark.parametrize(
    ("frame", "valid"),
    [
        ({"message": "hi"}, True),
        ({"type": None, "message": "hi", "agent_id": None, "agent_name": "a"}, True),
        ({"message": "hi", "agent_id": "a", "agent_name": "a"}, False),
        ({"message": "hi", "mode": "query", "session_id": None}, True),
        ({"message": "hi", "mode": "query", "session_id": "s"}, False),
        ({"message": "hi", "scope": {"colour": "red"}}, False),
        ({"message": "hi", "wizard": None}, False),
        ({"type": "ping"}, True),
        ({"type": "stop"}, False),
        ({"type": "stop", "session_id": None, "exchange_id": "e"}, True),
        ({"type": "follow", "session_id": "s", "after_seq": -1}, False),
        ({"type": None, "session_id": "s"}, False),
    ],
)
def test_the_rules_of_frames_are_in_their_schemas(frame: Json, valid: bool) -> None:
    assert accepted(frame) is valid
    assert (problems(FRAME, frame) == []) is valid
