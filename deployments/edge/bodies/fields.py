"""Field types that bodies share. Each says in one sentence what it accepts; none lets a value into an error."""

import re
from datetime import UTC, datetime
from typing import Annotated, Any
from zoneinfo import ZoneInfo

import orjson
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StringConstraints,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import PydanticCustomError

from deployments.edge.reading import nearest
from memory.errors import InvalidInput
from memory.ids import checked_id

MAX_CONTENT = 100_000
MAX_METADATA_BYTES = 8192
MAX_STATE_BYTES = 65_536
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)", re.ASCII)
_EARLIEST, _LATEST = datetime(1900, 1, 1, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)


def wrong(fix: str, at: str | None = None, kind: str = "fix") -> PydanticCustomError:
    """An error that says `fix`, at a field below the one being validated where `at` names it."""
    return PydanticCustomError(kind, "see ctx", {"fix": fix} if at is None else {"fix": fix, "at": at})


class Body(BaseModel):
    """A request's body: unknown fields are named together with the nearest known one."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _known_fields(cls, value: Any) -> Any:
        if isinstance(value, dict):
            for name in value:
                if name not in cls.model_fields:
                    raise wrong(f"unknown field; {nearest(str(name), cls.model_fields)}", at=str(name))
        return value


class Answer(BaseModel):
    """An answer's body, for the OpenAPI document and its tests."""

    model_config = ConfigDict(extra="forbid")


def _identifier(value: str) -> str:
    try:
        return checked_id(value, "id")
    except InvalidInput as error:
        raise wrong(error.fix) from None


def _moment(value: Any) -> datetime:
    if isinstance(value, datetime):
        return value
    if not isinstance(value, str) or not _MOMENT.fullmatch(value):
        raise wrong(
            "must be an RFC 3339 time with its offset, such as 2026-03-02T09:30:00+08:00 "
            "(in a query, write the + as %2B)"
        )
    try:
        moment = datetime.fromisoformat(value.upper())
        if _EARLIEST <= moment < _LATEST:
            return moment.astimezone(UTC)
    except ValueError:
        raise wrong("is no time of any calendar day; check day, hour and offset") from None
    raise wrong("must lie between the years 1900 and 2199")


def _time_zone(value: str) -> str:
    try:
        ZoneInfo(value)
    except (KeyError, ValueError, OSError):
        raise wrong("must be an IANA time zone, such as Asia/Shanghai") from None
    return value


def not_blank(value: str) -> str:
    if not value.strip():
        raise wrong("must not be empty")
    return value


def _sized(limit: int) -> AfterValidator:
    def check(value: dict[str, Any]) -> dict[str, Any]:
        if len(orjson.dumps(value)) > limit:
            raise wrong(f"must have at most {limit} bytes as JSON", kind="text_too_large")
        return value

    return AfterValidator(check)


Identifier = Annotated[
    str,
    StringConstraints(strict=True),
    AfterValidator(_identifier),
    WithJsonSchema({"type": "string", "pattern": "^[A-Za-z0-9_-]{1,64}$"}),
]
Moment = Annotated[datetime, BeforeValidator(_moment), WithJsonSchema({"type": "string", "format": "date-time"})]
TimeZone = Annotated[str, StringConstraints(strict=True, max_length=64), AfterValidator(_time_zone)]
Language = Annotated[str, StringConstraints(strict=True, max_length=35, pattern=r"^[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*$")]
Content = Annotated[str, StringConstraints(strict=True, max_length=MAX_CONTENT)]
Question = Annotated[str, StringConstraints(strict=True, max_length=20_000), AfterValidator(not_blank)]
Name = Annotated[str, StringConstraints(strict=True, min_length=1, max_length=128), AfterValidator(not_blank)]
Metadata = Annotated[dict[str, Any], _sized(MAX_METADATA_BYTES)]
StateMap = Annotated[dict[str, Any], _sized(MAX_STATE_BYTES)]
Share = Annotated[StrictFloat, Field(ge=0, le=1, allow_inf_nan=False)]
Count = Annotated[StrictInt, Field(ge=0, le=2_000_000)]
Flag = StrictBool
Limit = Annotated[int, Field(ge=1, le=1000)]
Cursor = Annotated[str, StringConstraints(min_length=1, max_length=512)]
