"""The bases of answers, bodies and query strings whose names are in camelCase on the wire."""

from pydantic import ConfigDict
from pydantic.alias_generators import to_camel

from agentic_backend.protocol.frames import Frame
from agentic_backend.protocol.parts import Value
from agentic_backend.transports.query_string import Query


class CamelValue(Value):
    model_config = ConfigDict(alias_generator=to_camel, validate_by_name=True, serialize_by_alias=True)


class CamelBody(Frame):
    model_config = ConfigDict(alias_generator=to_camel)


class CamelQuery(Query):
    model_config = ConfigDict(alias_generator=to_camel)
