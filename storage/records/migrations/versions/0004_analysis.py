"""An entry's terms beside its content, so that recall need not make them for every question. Where there are none yet they are made
when they are needed, and stored when the entry is next written or indexed."""

import sqlalchemy as sa

from storage.records import types
from storage.records.migrations.again import add_column

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    add_column("memories", sa.Column("analysis", types.CONTENT, nullable=True))
