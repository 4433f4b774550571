"""Steps of a migration that may have been taken already: MySQL commits each as it goes, so that a migration which was killed there
is half done, and is run again."""

from typing import Any

import sqlalchemy as sa
from alembic import op


def create_table(name: str, *columns: Any, **options: Any) -> None:
    if not sa.inspect(op.get_bind()).has_table(name):
        op.create_table(name, *columns, **options)


def create_index(name: str, table: str, columns: list[str], *, unique: bool) -> None:
    if name not in {index["name"] for index in sa.inspect(op.get_bind()).get_indexes(table)}:
        op.create_index(name, table, columns, unique=unique)


def add_column(table: str, column: sa.Column[Any]) -> None:
    if column.name not in {there["name"] for there in sa.inspect(op.get_bind()).get_columns(table)}:
        op.add_column(table, column)
