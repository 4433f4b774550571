"""An entry is found by the sort of its attribute: `favourite` finds `favourite:player`."""

import sqlalchemy as sa
from alembic import op

from storage.records import types
from storage.records.migrations.again import add_column, create_index

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_STEP = 1000


def upgrade() -> None:
    add_column("memories", sa.Column("sort_digest", types.DIGEST, nullable=True))
    create_index("ix_memories_sort", "memories", ["tenant_id", "user_id", "sort_digest"], unique=False)
    memories = sa.table(
        "memories",
        sa.column("tenant_id", types.ID),
        sa.column("id", types.ID),
        sa.column("subject", types.CONTENT),
        sa.column("sort_digest", types.DIGEST),
    )
    m = memories.c
    unsorted = (
        sa.select(m.tenant_id, m.id, m.subject).where(m.subject.contains(":")).order_by(m.tenant_id, m.id).limit(_STEP)
    )
    connection, after = op.get_bind(), None
    while rows := connection.execute(unsorted if after is None else unsorted.where(after)).all():
        for tenant_id, memory_id, subject in rows:
            this = sa.and_(m.tenant_id == tenant_id, m.id == memory_id)
            connection.execute(sa.update(memories).where(this).values(sort_digest=types.sort_digest(subject)))
        tenant_id, memory_id, _ = rows[-1]
        after = sa.or_(m.tenant_id > tenant_id, sa.and_(m.tenant_id == tenant_id, m.id > memory_id))
