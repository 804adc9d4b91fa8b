"""What a tool's result becomes for the model and for people, and how large it may get."""

import base64
import json
from typing import Any

import pytest
from mcp.types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)
from pydantic import AnyUrl

from agentic_backend.mcp.results import MAX_IMAGE_BYTES, MAX_IMAGES_BYTES, MAX_TEXT, Readable, readable
from agentic_backend.protocol.parts import CodePart, ImageUrlPart, LinkPart

DATA = base64.b64encode(b"pixels").decode()
PLACE = AnyUrl("https://example.org/a")


def result(*content: ContentBlock, sees_images: bool = False, **fields: Any) -> Readable:
    return readable(CallToolResult(content=list(content), **fields), model_sees_images=sees_images)


def text(value: str) -> TextContent:
    return TextContent(type="text", text=value)


def image(data: str = DATA, mime: str = "image/png") -> ImageContent:
    return ImageContent(type="image", data=data, mimeType=mime)


def texts(made: Readable) -> list[str]:
    return [block.text if isinstance(block, TextContent) else block.type for block in made.blocks]


def test_texts_stay_texts() -> None:
    assert (texts(result(text("a"), text("b"))), result(text("a")).parts) == (["a", "b"], [])


def test_an_image_is_shown_to_the_user_and_named_to_a_model_that_reads_none() -> None:
    made = result(text("look"), image())
    assert texts(made) == ["look", "[image/png of 6 bytes, shown to the user]"]
    assert made.parts == [ImageUrlPart(url=f"data:image/png;base64,{DATA}")]


def test_a_model_that_reads_images_gets_them() -> None:
    assert result(image(), sees_images=True).blocks == [image()]


def test_an_image_among_resources_is_an_image() -> None:
    blob = BlobResourceContents(uri=PLACE, blob=DATA, mimeType="image/webp")
    [part] = result(EmbeddedResource(type="resource", resource=blob)).parts
    assert part == ImageUrlPart(url=f"data:image/webp;base64,{DATA}")


@pytest.mark.parametrize("mime", ["image/svg+xml", "text/html", "image/png,<script>"])
def test_what_is_no_plain_picture_is_not_shown(mime: str) -> None:
    made = result(image(mime=mime), sees_images=True)
    assert (texts(made), made.parts) == ([f"[{mime} of 6 bytes, which can't be shown]"], [])


def test_a_large_image_is_left_out_and_says_so() -> None:
    made = result(image(base64.b64encode(bytes(MAX_IMAGE_BYTES + 1)).decode()), sees_images=True)
    assert texts(made) == [f"[image/png of {MAX_IMAGE_BYTES + 1} bytes, left out because it is too large]"]
    assert made.parts == []


def test_many_images_are_bounded_together() -> None:
    large = base64.b64encode(bytes(MAX_IMAGE_BYTES)).decode()
    made = result(*[image(large)] * 9)
    assert len(made.parts) == MAX_IMAGES_BYTES // MAX_IMAGE_BYTES
    assert len(made.blocks) == 9


def test_long_texts_are_cut_together() -> None:
    made = result(text("a" * (MAX_TEXT - 1)), text("bcd"), text("e"))
    assert texts(made)[1:] == ["b\n[cut: 2 more characters left out]", "\n[cut: 1 more characters left out]"]


def test_links_and_notes_are_cut_together_with_texts() -> None:
    long, notes = "x" * MAX_TEXT * 3, 400
    place = AnyUrl(f"https://example.org/{long}")
    links = [ResourceLink(type="resource_link", name=long, uri=uri) for uri in (PLACE, place)]
    blob = BlobResourceContents(uri=place, blob=DATA, mimeType=long)
    sound = AudioContent(type="audio", data=DATA, mimeType=long)
    for block in [*links, sound, image(mime=long), EmbeddedResource(type="resource", resource=blob)]:
        made = result(block)
        assert sum(map(len, texts(made))) <= MAX_TEXT + notes, block.type
        assert made.parts == [], "half a link leads elsewhere"
    made = result(*links, *links, sound, image(mime=long), sound)
    assert sum(map(len, texts(made))) <= MAX_TEXT + notes


def test_a_link_is_shown_as_long_as_there_is_room() -> None:
    link = ResourceLink(type="resource_link", name="a", uri=AnyUrl("demo://a/1"), mimeType="m" * 1000)
    room = len("a: demo://a/1")
    assert result(text("x" * (MAX_TEXT - room)), link).parts == [LinkPart(title="a", kind="related", mime="m" * 100)]
    assert result(text("x" * (MAX_TEXT - room + 1)), link).parts == []


def test_a_long_type_is_cut() -> None:
    sound = AudioContent(type="audio", data=DATA, mimeType="m" * 1000)
    assert texts(result(sound)) == [f"[{'m' * 100} of 6 bytes, which can't be shown]"]


def test_sound_and_files_are_named() -> None:
    sound = AudioContent(type="audio", data=DATA, mimeType="audio/wav")
    blob = EmbeddedResource(type="resource", resource=BlobResourceContents(uri=PLACE, blob=DATA, mimeType="a/zip"))
    page = EmbeddedResource(type="resource", resource=TextResourceContents(uri=PLACE, text="page"))
    assert texts(result(sound, blob, page)) == [
        "[audio/wav of 6 bytes, which can't be shown]",
        "[a/zip of 6 bytes: https://example.org/a]",
        "page",
    ]


def test_a_link_is_a_link_for_people_and_a_text_for_the_model() -> None:
    link = ResourceLink(type="resource_link", name="a", title="The page", uri=PLACE, mimeType="text/html")
    made = result(link)
    assert texts(made) == ["The page: https://example.org/a"]
    assert made.parts == [LinkPart(href="https://example.org/a", title="The page", kind="related", mime="text/html")]


def test_a_link_that_no_browser_follows_leads_nowhere() -> None:
    made = result(ResourceLink(type="resource_link", name="a", uri=AnyUrl("demo://a/1")))
    assert (texts(made), made.parts) == (["a: demo://a/1"], [LinkPart(title="a", kind="related")])


def test_a_structured_result_is_code() -> None:
    value = {"degrees": 21, "city": "Tromsø"}
    made = result(text("mild"), structuredContent=value)
    assert texts(made) == ["mild"]
    [part] = made.parts
    assert isinstance(part, CodePart)
    assert (part.language, json.loads(part.code)) == ("json", value)
    assert "ø" in part.code


@pytest.mark.parametrize(
    ("content", "structured"),
    [
        ([text('{"a": 1}')], {"a": 1}),
        ([text("plain")], {"result": "plain"}),
        ([text("7")], {"result": 7}),
        ([text("a"), text("b")], {"result": ["a", "b"]}),
        ([text('{"x": 1}'), text('{"x": 2}')], {"result": [{"x": 1}, {"x": 2}]}),
    ],
)
def test_a_structured_result_that_the_text_tells_is_not_told_twice(
    content: list[ContentBlock], structured: dict[str, Any]
) -> None:
    assert result(*content, structuredContent=structured).parts == []


def test_a_model_reads_a_structured_result_that_has_no_text() -> None:
    assert json.loads(texts(result(structuredContent={"a": 1}))[0]) == {"a": 1}


def test_a_result_is_never_empty() -> None:
    assert texts(result()) == ["The tool gave no content."]
    assert texts(result(isError=True)) == ["The tool failed."]
