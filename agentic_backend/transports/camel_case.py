"""The bases of answers, bodies and query strings whose names are in camelCase on the wire."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from pydantic import ConfigDict
from pydantic.alias_generators import to_camel

from agentic_backend.errors import BadFrame
from agentic_backend.protocol.frames import Frame
from agentic_backend.protocol.parts import Value
from agentic_backend.transports.rest.query_string import Query


class CamelValue(Value):
    model_config = ConfigDict(alias_generator=to_camel, validate_by_name=True, serialize_by_alias=True)


class CamelBody(Frame):
    model_config = ConfigDict(alias_generator=to_camel)


class CamelQuery(Query):
    model_config = ConfigDict(alias_generator=to_camel)


@contextmanager
def named_in_camel_case(inside: str = "") -> Iterator[None]:
    """Raises the BadFrame of its block with the name that its field has in the body.

    The rules of exchanges name the fields of frames; `inside` is what frames have around the body's fields.
    """
    try:
        yield
    except BadFrame as error:
        problem = error.content.removeprefix(inside)
        raise BadFrame(re.sub(r"^\w+(?=[.:])", lambda field: to_camel(field[0]), problem)) from None
