"""Column types that mean the same on SQLite, MySQL, MariaDB and PostgreSQL."""

import hashlib
import unicodedata
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import JSON, BigInteger, ColumnElement, DateTime, Double, Integer, LargeBinary, String, Text, literal
from sqlalchemy.dialects import mysql
from sqlalchemy.engine import Dialect
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import TypeDecorator

_MYSQL = ("mysql", "mariadb")


def _ascii(length: int) -> String:
    """ASCII, compared byte for byte: no collation may equate two ids (P24)."""
    return (
        String(length)
        .with_variant(mysql.VARCHAR(length, charset="ascii", collation="ascii_bin"), *_MYSQL)
        .with_variant(String(length, collation="C"), "postgresql")
    )


ID = _ascii(64)
WORD = _ascii(64)  # our own enumerations: kinds, statuses, actions
DIGEST = _ascii(32)
COUNTER = BigInteger().with_variant(Integer, "sqlite")  # SQLite numbers rows by itself only under this name
NUMBER: Double[float] = Double()
CONTENT = Text().with_variant(mysql.MEDIUMTEXT(charset="utf8mb4", collation="utf8mb4_bin"), *_MYSQL)
DOCUMENT = JSON(none_as_null=True)
BLOB = LargeBinary().with_variant(mysql.MEDIUMBLOB(), *_MYSQL)


class UtcDateTime(TypeDecorator[datetime]):
    """Aware datetimes in, UTC out, to the microsecond. A naive one is a programming error: its zone would be a guess (P17)."""

    impl = DateTime
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> Any:
        if dialect.name in _MYSQL:
            return dialect.type_descriptor(mysql.DATETIME(fsp=6))
        return dialect.type_descriptor(DateTime())

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError("times must be aware")
        return value.astimezone(UTC).replace(tzinfo=None)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        return None if value is None else value.replace(tzinfo=UTC)

    def result_processor(self, dialect: Dialect, coltype: Any) -> Any:
        """On SQLite, where times are texts, in one step: hundreds are read for a question."""
        return _from_text if dialect.name == "sqlite" else super().result_processor(dialect, coltype)


def _from_text(value: str | None) -> datetime | None:
    return None if value is None else datetime.fromisoformat(f"{value}+00:00")


class folded(FunctionElement[str]):
    """A text in lower case, whatever its script."""

    type = Text()
    inherit_cache = True


@compiles(folded)
def _folded(element: folded, compiler: SQLCompiler, **options: Any) -> str:
    return f"lower({compiler.process(element.clauses, **options)})"


@compiles(folded, "postgresql")
def _folded_by_unicode(element: folded, compiler: SQLCompiler, **options: Any) -> str:
    # A database made with the locale C, as many are for speed, folds ASCII alone.
    return f'lower(({compiler.process(element.clauses, **options)}) COLLATE "und-x-icu")'


def holds(column: ColumnElement[Any], text: str) -> ColumnElement[bool]:
    """Whether `column` holds `text`, case aside: a plain substring."""
    for special in "/%_":
        text = text.replace(special, f"/{special}")
    return folded(column).like(folded(literal(f"%{text}%", Text())), escape="/")


def digest(text: str) -> str:
    """32 hex characters by which a text is looked up for equality: no collation, length limit or padding takes part."""
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def sort_digest(subject: str | None) -> str | None:
    """The digest of the sort of attribute that a subject is of: `favourite` of `favourite:player`. None where it names none."""
    sort = (subject or "").rpartition(":")[0]
    return digest(sort) if sort else None


def name_digest(name: str) -> str:
    """The same for a name, whatever its case and width ("ＡＣＭＥ" is "Acme")."""
    return digest(unicodedata.normalize("NFKC", name).casefold().strip())
