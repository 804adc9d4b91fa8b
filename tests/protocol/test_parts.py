"""The exact JSON of every part, as the contract writes it."""

import json
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from agentic_backend.protocol.parts import (
    CodePart,
    CustomPart,
    FilePart,
    GeoPart,
    ImageUrlPart,
    LinkPart,
    Part,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    text_of,
)

PARTS: TypeAdapter[Part] = TypeAdapter(Part)
GEOJSON = {"type": "Point", "coordinates": [1.5, None]}
# Each part in its smallest and its largest form, with its JSON.
SHAPES: list[tuple[Part, dict[str, Any]]] = [
    (TextPart(text=""), {"type": "text", "text": ""}),
    (TextPart(text="größer ✓\u2028"), {"type": "text", "text": "größer ✓\u2028"}),
    (CodePart(code="x"), {"type": "code", "code": "x"}),
    (CodePart(language="py", code="x"), {"type": "code", "language": "py", "code": "x"}),
    (ImageUrlPart(url="https://x/y.png"), {"type": "image_url", "url": "https://x/y.png"}),
    (ImageUrlPart(url="u", alt="a"), {"type": "image_url", "url": "u", "alt": "a"}),
    (ToolCallPart(call_id="c", name="n", args={}), {"type": "tool_call", "call_id": "c", "name": "n", "args": {}}),
    (
        ToolCallPart(call_id="c", name="n", args={"none": None, "deep": [{"none": None}], "big": 2**60}),
        {
            "type": "tool_call",
            "call_id": "c",
            "name": "n",
            "args": {"none": None, "deep": [{"none": None}], "big": 2**60},
        },
    ),
    (ToolResultPart(call_id="c", content=""), {"type": "tool_result", "call_id": "c", "content": ""}),
    (
        ToolResultPart(call_id="c", ok=False, latency_ms=0, content="x"),
        {"type": "tool_result", "call_id": "c", "ok": False, "latency_ms": 0, "content": "x"},
    ),
    (LinkPart(kind="view"), {"type": "link", "kind": "view"}),
    (
        LinkPart(
            href="h",
            title="t",
            kind="citation",
            rel="r",
            mime="m",
            source_id="s",
            document_uid="d",
            file_name="f",
            panel="a/p",
            panel_data={"at": None},
        ),
        {
            "type": "link",
            "href": "h",
            "title": "t",
            "kind": "citation",
            "rel": "r",
            "mime": "m",
            "source_id": "s",
            "document_uid": "d",
            "file_name": "f",
            "panel": "a/p",
            "panel_data": {"at": None},
        },
    ),
    (GeoPart(geojson=GEOJSON, fit_bounds=False), {"type": "geo", "geojson": GEOJSON, "fit_bounds": False}),
    (
        CustomPart(kind="notes:note", data={"words": 2}, text="A note"),
        {"type": "custom", "kind": "notes:note", "data": {"words": 2}, "text": "A note"},
    ),
    (
        GeoPart(geojson={}, popup_property="p", fit_bounds=True, style={"fill": None}),
        {"type": "geo", "geojson": {}, "popup_property": "p", "fit_bounds": True, "style": {"fill": None}},
    ),
    (
        FilePart(attachment_id="a", name="n.pdf", mime="application/pdf", size=0),
        {"type": "file", "attachment_id": "a", "name": "n.pdf", "mime": "application/pdf", "size": 0},
    ),
]


@pytest.mark.parametrize(("part", "shape"), SHAPES)
def test_a_part_has_exactly_its_fields_and_comes_back(part: Part, shape: dict[str, Any]) -> None:
    text = part.model_dump_json()
    assert json.loads(text) == shape
    assert PARTS.validate_json(text) == part


@pytest.mark.parametrize("kind", ["citation", "download", "external", "dashboard", "related", "view"])
def test_a_link_has_one_of_the_kinds_of_the_contract(kind: str) -> None:
    assert PARTS.validate_python({"type": "link", "kind": kind}).model_dump() == {"type": "link", "kind": kind}


@pytest.mark.parametrize(
    "shape",
    [
        {"type": "video", "url": "u"},
        {"text": "x"},
        {"type": "text"},
        {"type": "text", "text": "x", "wizard": 1},
        {"type": "text", "text": None},
        {"type": "link", "kind": "other"},
        {"type": "geo", "geojson": {}},
        {"type": "tool_call", "call_id": "c", "name": "n", "args": "{}"},
    ],
)
def test_what_is_no_part_is_refused(shape: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        PARTS.validate_python(shape)


def test_parts_never_change() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        TextPart(text="x").text = "y"


def test_the_readable_text_of_parts() -> None:
    parts: list[Part] = [
        TextPart(text="one"),
        ImageUrlPart(url="u"),
        CodePart(code="two"),
        ToolCallPart(call_id="c", name="n", args={}),
        ToolResultPart(call_id="c", content="three"),
        LinkPart(kind="view", title="t"),
        FilePart(attachment_id="a", name="n.pdf", mime="application/pdf", size=0),
    ]
    assert text_of(parts) == "one\ntwo\nthree"
    assert text_of([]) == ""
