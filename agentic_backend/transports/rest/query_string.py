"""Query: the base of the query strings of REST calls, and the types of their parameters. Errors name the parameter."""

import re
import unicodedata
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    ValidationError,
    WithJsonSchema,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema
from pydantic_core.core_schema import int_schema, no_info_before_validator_function
from starlette.datastructures import QueryParams

from agentic_backend.errors import BadFrame
from agentic_backend.protocol.frames import LONGEST_ID, first_problem

# Longer ones would only cost time to read.
_WHOLE_NUMBER = re.compile(r"-?[0-9]{1,1000}")
# The largest offset from UTC in use.
_FARTHEST_OFFSET = timedelta(hours=14)


class Query(BaseModel):
    """The parameters of a query string. Unknown ones are ignored, and of repeated ones the last counts.

    A parameter of a list type has all its values. An empty parameter counts as absent, unless it is a number.
    """

    model_config = ConfigDict(extra="ignore", frozen=True)

    @classmethod
    def of(cls, parameters: QueryParams) -> Self:
        """Raises BadFrame, which names the parameter."""
        given: dict[str, Any] = {}
        for name, field in cls.model_fields.items():
            is_number = any(isinstance(each, WholeNumber | PageSize) for each in field.metadata)
            parameter = field.alias or name
            texts = [text for text in parameters.getlist(parameter) if text or is_number]
            if texts:
                given[parameter] = texts if _is_list(field.annotation) else texts[-1]
        try:
            return cls.model_validate(given)
        except ValidationError as error:
            raise BadFrame(first_problem(error, "query")) from None


def _is_list(annotation: Any) -> bool:
    return getattr(annotation, "__origin__", None) is list


@dataclass(frozen=True)
class WholeNumber:
    """Marks a parameter as a whole number in ASCII digits, within bounds."""

    at_least: int
    at_most: int

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return no_info_before_validator_function(self._read, int_schema())

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"type": "integer", "minimum": self.at_least, "maximum": self.at_most}

    def _read(self, value: object) -> int:
        return _whole(value, self.at_least, self.at_most)


@dataclass(frozen=True)
class PageSize:
    """Marks a parameter as the size of a page: a whole number from 1 on, and above `at_most` the same as `at_most`."""

    at_most: int

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return no_info_before_validator_function(self._read, int_schema())

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        meaning = f"At most so many; a number above {self.at_most} counts as {self.at_most}."
        return {"type": "integer", "minimum": 1, "description": meaning}

    def _read(self, value: object) -> int:
        return min(_whole(value, 1, None), self.at_most)


def _whole(value: object, at_least: int, at_most: int | None) -> int:
    if isinstance(value, int):
        return value
    number = int(value) if isinstance(value, str) and _WHOLE_NUMBER.fullmatch(value) else at_least - 1
    if number < at_least or (at_most is not None and number > at_most):
        span = f"from {at_least} on" if at_most is None else f"from {at_least} to {at_most}"
        raise ValueError(f"expected a whole number {span}")
    return number


def _time(value: object) -> object:
    """A time (RFC 3339) in UTC, which is the default offset."""
    if not isinstance(value, str):
        return value
    try:
        # An unescaped plus sign in a query arrives as a space.
        time = datetime.fromisoformat(value.strip().replace(" ", "+"))
        offset = time.utcoffset()
        if offset is None:
            return time.replace(tzinfo=UTC)
        if abs(offset) > _FARTHEST_OFFSET:
            raise ValueError
        # Near years 1 and 9999 the conversion can overflow.
        return time.astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError("expected a time such as 2026-01-31T00:00:00Z") from None


_TIME = {
    "type": "string",
    "format": "date-time",
    # With an offset in use, and of a year that has the same moment in UTC.
    "pattern": "^(?!0000|0001|9999).*([Zz]|[+-](0[0-9]|1[0-3]):[0-5][0-9])$",
}
Time = Annotated[datetime, BeforeValidator(_time), WithJsonSchema(_TIME)]
"""A time in a query string, in UTC."""

Name = Annotated[str, Field(max_length=LONGEST_ID)]
"""An id or a name in a query string."""

Cursor = Annotated[str, Field(max_length=1_000, description="The `next_cursor` of the page before.")]


_SEARCH_CHARACTERS = 200


def _searchable(text: str) -> str:
    controls = (character for character in text if unicodedata.category(character) in ("Cc", "Cs"))
    if len(text) > _SEARCH_CHARACTERS or any(not character.isspace() for character in controls):
        raise ValueError(f"expected at most {_SEARCH_CHARACTERS} characters, and no control characters")
    return text


def _words(text: str) -> str:
    if not text.strip():
        raise ValueError("expected something to search for")
    return _searchable(text)


# Also white space, which is accepted among words, and no use in a search.
_CONTROLS = r"\u0000-\u001f\u007f-\u009f"
_SEARCHED = {"type": "string", "maxLength": _SEARCH_CHARACTERS}
SearchText = Annotated[str, AfterValidator(_searchable), WithJsonSchema(_SEARCHED)]
"""What to search for; empty: nothing."""
SearchWords = Annotated[
    str,
    AfterValidator(_words),
    WithJsonSchema({**_SEARCHED, "minLength": 1, "pattern": rf"^[^{_CONTROLS}]*[^\s{_CONTROLS}][^{_CONTROLS}]*$"}),
]
"""What to search for: at least one word."""
