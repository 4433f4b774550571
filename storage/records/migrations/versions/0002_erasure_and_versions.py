"""Erasures with their fences and receipts by store; which model an index is of; where a tenant's entries lie."""

import sqlalchemy as sa
from alembic import op

from storage.records import types
from storage.records.migrations.again import add_column, create_index, create_table

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    create_table(
        "erasures",
        sa.Column("tenant_id", types.ID, nullable=False),
        sa.Column("receipt_id", types.ID, nullable=False),
        sa.Column("user_id", types.ID, nullable=True),
        sa.Column("refs", types.DOCUMENT, nullable=False),
        sa.Column("phase", types.WORD, nullable=False),
        sa.Column("due_at", types.UtcDateTime(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("owner", types.WORD, nullable=True),
        sa.Column("lease_until", types.UtcDateTime(), nullable=True),
        sa.Column("requested_at", types.UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("tenant_id", "receipt_id", name=op.f("pk_erasures")),
        mariadb_charset="utf8mb4",
        mariadb_collate="utf8mb4_bin",
        mariadb_engine="InnoDB",
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
        mysql_engine="InnoDB",
    )
    create_index("ix_erasures_due", "erasures", ["due_at"], unique=False)
    create_index("ix_erasures_user", "erasures", ["tenant_id", "user_id"], unique=False)
    create_table(
        "index_versions",
        sa.Column("model_key", types.ID, nullable=False),
        sa.Column("dimension", sa.Integer(), nullable=False),
        sa.Column("state", types.WORD, nullable=False),
        sa.Column("details", types.DOCUMENT, nullable=False),
        sa.Column("created_at", types.UtcDateTime(), nullable=False),
        sa.Column("activated_at", types.UtcDateTime(), nullable=True),
        sa.Column("at_tenant_id", types.ID, nullable=True),
        sa.Column("at_memory_id", types.ID, nullable=True),
        sa.PrimaryKeyConstraint("model_key", name=op.f("pk_index_versions")),
        mariadb_charset="utf8mb4",
        mariadb_collate="utf8mb4_bin",
        mariadb_engine="InnoDB",
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
        mysql_engine="InnoDB",
    )
    create_table(
        "placements",
        sa.Column("tenant_id", types.ID, nullable=False),
        sa.Column("model_key", types.ID, nullable=False),
        sa.Column("place", types.WORD, nullable=False),
        sa.Column("moving_to", types.WORD, nullable=True),
        sa.Column("since", types.UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("tenant_id", "model_key", name=op.f("pk_placements")),
        mariadb_charset="utf8mb4",
        mariadb_collate="utf8mb4_bin",
        mariadb_engine="InnoDB",
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
        mysql_engine="InnoDB",
    )
    add_column("users", sa.Column("erasing_at", types.UtcDateTime(), nullable=True))
    add_column("tenants", sa.Column("erasing_at", types.UtcDateTime(), nullable=True))
    add_column("receipts", sa.Column("stores", types.DOCUMENT, nullable=True))
    # SQLite changes a column by copying its table
    with op.batch_alter_table("receipts") as receipts:
        receipts.alter_column("user_id", existing_type=types.ID, nullable=True)
    # Every user has a row by now, which carries the fence; where SQLite was written before, one without a key had none.
    op.execute(
        "INSERT INTO users (tenant_id, user_id, created_at) "
        "SELECT m.tenant_id, m.user_id, MIN(m.created_at) FROM memories m "
        "LEFT JOIN users u ON u.tenant_id = m.tenant_id AND u.user_id = m.user_id "
        "WHERE u.user_id IS NULL GROUP BY m.tenant_id, m.user_id"
    )
