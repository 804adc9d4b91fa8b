"""Bodies, answers and query strings with camelCase names."""

from typing import Annotated, Literal

import pytest
from starlette.datastructures import QueryParams

from agentic_backend.errors import BadFrame
from agentic_backend.transports.camel_case import CamelBody, CamelQuery, CamelValue
from agentic_backend.transports.rest.query_string import PageSize
from agentic_backend.transports.rest.rest_errors import json_response


class _Body(CamelBody):
    tool_id: str
    on_disconnect: Literal["cancel", "continue"] = "cancel"


class _Answer(CamelValue):
    started_at: str


class _Page(CamelQuery):
    tool_id: str | None = None
    page_size: Annotated[int, PageSize(10)] = 5


def test_a_body_has_its_camel_case_names_alone() -> None:
    assert _Body.model_validate({"toolId": "x", "onDisconnect": "continue"}).on_disconnect == "continue"
    with pytest.raises(ValueError, match="toolId"):
        _Body.model_validate({"tool_id": "x"})


def test_null_is_the_same_as_an_absent_camel_case_key() -> None:
    assert _Body.model_validate({"toolId": "x", "onDisconnect": None}).on_disconnect == "cancel"


def test_an_answer_is_rendered_in_camel_case() -> None:
    assert json_response(_Answer(started_at="now")).body == b'{"startedAt":"now"}'


def test_a_query_string_is_read_in_camel_case_and_its_errors_name_the_parameter() -> None:
    page = _Page.of(QueryParams("toolId=a&toolId=b&pageSize=99"))
    assert (page.tool_id, page.page_size) == ("b", 10)
    assert _Page.of(QueryParams("tool_id=a")).tool_id is None
    with pytest.raises(BadFrame, match="pageSize"):
        _Page.of(QueryParams("pageSize=x"))
