"""The first schema: users, entries with all that hangs on them, the dirty table, audit, receipts, tenants."""

import sqlalchemy as sa
from alembic import op

from storage.records import types
from storage.records.migrations.again import create_index, create_table

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    create_table(
        "audit",
        sa.Column("number", types.COUNTER, autoincrement=True, nullable=False),
        sa.Column("tenant_id", types.ID, nullable=False),
        sa.Column("user_id", types.ID, nullable=True),
        sa.Column("event_id", types.ID, nullable=False),
        sa.Column("at", types.UtcDateTime(), nullable=False),
        sa.Column("action", types.WORD, nullable=False),
        sa.Column("actor", types.CONTENT, nullable=False),
        sa.Column("memory_id", types.ID, nullable=True),
        sa.Column("session_id", types.ID, nullable=True),
        sa.Column("reason", types.CONTENT, nullable=False),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_audit")),
        mariadb_charset="utf8mb4",
        mariadb_collate="utf8mb4_bin",
        mariadb_engine="InnoDB",
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
        mysql_engine="InnoDB",
    )
    create_index("ix_audit_memory", "audit", ["tenant_id", "memory_id"], unique=False)
    create_index("ix_audit_user", "audit", ["tenant_id", "user_id", "at"], unique=False)
    create_table(
        "memories",
        sa.Column("tenant_id", types.ID, nullable=False),
        sa.Column("id", types.ID, nullable=False),
        sa.Column("user_id", types.ID, nullable=False),
        sa.Column("kind", types.WORD, nullable=False),
        sa.Column("content", types.CONTENT, nullable=True),
        sa.Column("source", types.WORD, nullable=False),
        sa.Column("status", types.WORD, nullable=False),
        sa.Column("language", types.WORD, nullable=True),
        sa.Column("importance", types.NUMBER, nullable=False),
        sa.Column("confidence", types.NUMBER, nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("created_at", types.UtcDateTime(), nullable=False),
        sa.Column("updated_at", types.UtcDateTime(), nullable=False),
        sa.Column("subject", types.CONTENT, nullable=True),
        sa.Column("value", types.CONTENT, nullable=True),
        sa.Column("exclusive", sa.Boolean(), nullable=False),
        sa.Column("entities", types.DOCUMENT, nullable=True),
        sa.Column("session_id", types.ID, nullable=True),
        sa.Column("turn_ids", types.DOCUMENT, nullable=True),
        sa.Column("context_turn_ids", types.DOCUMENT, nullable=True),
        sa.Column("last_access_at", types.UtcDateTime(), nullable=True),
        sa.Column("access_count", sa.Integer(), nullable=False),
        sa.Column("hit_count", sa.Integer(), nullable=False),
        sa.Column("valid_from", types.UtcDateTime(), nullable=True),
        sa.Column("valid_to", types.UtcDateTime(), nullable=True),
        sa.Column("supersedes", types.ID, nullable=True),
        sa.Column("metadata", types.DOCUMENT, nullable=True),
        sa.Column("subject_digest", types.DIGEST, nullable=True),
        sa.Column("fingerprint_digest", types.DIGEST, nullable=True),
        sa.Column("deleted_at", types.UtcDateTime(), nullable=True),
        sa.Column("receipt_id", types.ID, nullable=True),
        sa.PrimaryKeyConstraint("tenant_id", "id", name=op.f("pk_memories")),
        mariadb_charset="utf8mb4",
        mariadb_collate="utf8mb4_bin",
        mariadb_engine="InnoDB",
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
        mysql_engine="InnoDB",
    )
    create_index("ix_memories_fingerprint", "memories", ["tenant_id", "user_id", "fingerprint_digest"], unique=False)
    create_index("ix_memories_page", "memories", ["tenant_id", "user_id", "created_at", "id"], unique=False)
    create_index(
        "ix_memories_recent", "memories", ["tenant_id", "user_id", "status", "importance", "created_at"], unique=False
    )
    create_index("ix_memories_subject", "memories", ["tenant_id", "user_id", "subject_digest"], unique=False)
    create_index("ix_memories_supersedes", "memories", ["tenant_id", "user_id", "supersedes"], unique=False)
    create_table(
        "receipts",
        sa.Column("tenant_id", types.ID, nullable=False),
        sa.Column("id", types.ID, nullable=False),
        sa.Column("user_id", types.ID, nullable=False),
        sa.Column("action", types.WORD, nullable=False),
        sa.Column("count", sa.Integer(), nullable=False),
        sa.Column("pending", sa.Integer(), nullable=False),
        sa.Column("requested_at", types.UtcDateTime(), nullable=False),
        sa.Column("records_at", types.UtcDateTime(), nullable=False),
        sa.Column("completed_at", types.UtcDateTime(), nullable=True),
        sa.PrimaryKeyConstraint("tenant_id", "id", name=op.f("pk_receipts")),
        mariadb_charset="utf8mb4",
        mariadb_collate="utf8mb4_bin",
        mariadb_engine="InnoDB",
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
        mysql_engine="InnoDB",
    )
    create_table(
        "tenants",
        sa.Column("id", types.ID, nullable=False),
        sa.Column("display_name", types.CONTENT, nullable=False),
        sa.Column("policy", types.DOCUMENT, nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("suspended", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tenants")),
        mariadb_charset="utf8mb4",
        mariadb_collate="utf8mb4_bin",
        mariadb_engine="InnoDB",
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
        mysql_engine="InnoDB",
    )
    create_table(
        "users",
        sa.Column("tenant_id", types.ID, nullable=False),
        sa.Column("user_id", types.ID, nullable=False),
        sa.Column("ref", types.ID, nullable=True),
        sa.Column("wrapped", types.BLOB, nullable=True),
        sa.Column("created_at", types.UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("tenant_id", "user_id", name=op.f("pk_users")),
        mariadb_charset="utf8mb4",
        mariadb_collate="utf8mb4_bin",
        mariadb_engine="InnoDB",
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
        mysql_engine="InnoDB",
    )
    create_index("uq_users_ref", "users", ["ref"], unique=True)
    create_table(
        "dirty",
        sa.Column("tenant_id", types.ID, nullable=False),
        sa.Column("memory_id", types.ID, nullable=False),
        sa.Column("user_id", types.ID, nullable=False),
        sa.Column("mark", types.COUNTER, nullable=False),
        sa.Column("phase", types.WORD, nullable=False),
        sa.Column("since", types.UtcDateTime(), nullable=False),
        sa.Column("due_at", types.UtcDateTime(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("owner", types.WORD, nullable=True),
        sa.Column("lease_until", types.UtcDateTime(), nullable=True),
        sa.ForeignKeyConstraint(
            ["tenant_id", "memory_id"],
            ["memories.tenant_id", "memories.id"],
            name=op.f("fk_dirty_memories"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("tenant_id", "memory_id", name=op.f("pk_dirty")),
        mariadb_charset="utf8mb4",
        mariadb_collate="utf8mb4_bin",
        mariadb_engine="InnoDB",
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
        mysql_engine="InnoDB",
    )
    create_index("ix_dirty_due", "dirty", ["due_at"], unique=False)
    create_index("ix_dirty_user", "dirty", ["tenant_id", "user_id"], unique=False)
    create_table(
        "memory_entities",
        sa.Column("tenant_id", types.ID, nullable=False),
        sa.Column("memory_id", types.ID, nullable=False),
        sa.Column("name_digest", types.DIGEST, nullable=False),
        sa.Column("user_id", types.ID, nullable=False),
        sa.ForeignKeyConstraint(
            ["tenant_id", "memory_id"],
            ["memories.tenant_id", "memories.id"],
            name=op.f("fk_memory_entities_memories"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("tenant_id", "memory_id", "name_digest", name=op.f("pk_memory_entities")),
        mariadb_charset="utf8mb4",
        mariadb_collate="utf8mb4_bin",
        mariadb_engine="InnoDB",
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
        mysql_engine="InnoDB",
    )
    create_index("ix_memory_entities_name", "memory_entities", ["tenant_id", "user_id", "name_digest"], unique=False)
    create_table(
        "memory_tokens",
        sa.Column("tenant_id", types.ID, nullable=False),
        sa.Column("memory_id", types.ID, nullable=False),
        sa.Column("model_key", types.ID, nullable=False),
        sa.Column("user_id", types.ID, nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("dimension", sa.Integer(), nullable=False),
        sa.Column("tokens", types.BLOB, nullable=False),
        sa.Column("stored_at", types.UtcDateTime(), nullable=False),
        sa.ForeignKeyConstraint(
            ["tenant_id", "memory_id"],
            ["memories.tenant_id", "memories.id"],
            name=op.f("fk_memory_tokens_memories"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("tenant_id", "memory_id", "model_key", name=op.f("pk_memory_tokens")),
        mariadb_charset="utf8mb4",
        mariadb_collate="utf8mb4_bin",
        mariadb_engine="InnoDB",
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
        mysql_engine="InnoDB",
    )
    create_table(
        "memory_turns",
        sa.Column("tenant_id", types.ID, nullable=False),
        sa.Column("memory_id", types.ID, nullable=False),
        sa.Column("role", types.WORD, nullable=False),
        sa.Column("session_id", types.ID, nullable=False),
        sa.Column("turn_id", types.ID, nullable=False),
        sa.Column("user_id", types.ID, nullable=False),
        sa.ForeignKeyConstraint(
            ["tenant_id", "memory_id"],
            ["memories.tenant_id", "memories.id"],
            name=op.f("fk_memory_turns_memories"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint(
            "tenant_id", "memory_id", "role", "session_id", "turn_id", name=op.f("pk_memory_turns")
        ),
        mariadb_charset="utf8mb4",
        mariadb_collate="utf8mb4_bin",
        mariadb_engine="InnoDB",
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
        mysql_engine="InnoDB",
    )
    create_index(
        "ix_memory_turns_turn", "memory_turns", ["tenant_id", "user_id", "session_id", "turn_id"], unique=False
    )
    create_table(
        "revisions",
        sa.Column("number", types.COUNTER, autoincrement=True, nullable=False),
        sa.Column("tenant_id", types.ID, nullable=False),
        sa.Column("user_id", types.ID, nullable=False),
        sa.Column("memory_id", types.ID, nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("content", types.CONTENT, nullable=False),
        sa.Column("kind", types.WORD, nullable=False),
        sa.Column("status", types.WORD, nullable=False),
        sa.Column("confidence", types.NUMBER, nullable=False),
        sa.Column("at", types.UtcDateTime(), nullable=False),
        sa.Column("change", types.WORD, nullable=False),
        sa.Column("session_id", types.ID, nullable=True),
        sa.Column("turns", types.DOCUMENT, nullable=False),
        sa.Column("fingerprint_digest", types.DIGEST, nullable=True),
        sa.Column("entities", types.DOCUMENT, nullable=True),
        sa.ForeignKeyConstraint(
            ["tenant_id", "memory_id"],
            ["memories.tenant_id", "memories.id"],
            name=op.f("fk_revisions_memories"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_revisions")),
        mariadb_charset="utf8mb4",
        mariadb_collate="utf8mb4_bin",
        mariadb_engine="InnoDB",
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
        mysql_engine="InnoDB",
    )
    create_index("ix_revisions_memory", "revisions", ["tenant_id", "memory_id", "number"], unique=False)
    create_table(
        "tenant_keys",
        sa.Column("id", types.ID, nullable=False),
        sa.Column("tenant_id", types.ID, nullable=False),
        sa.Column("name", types.CONTENT, nullable=False),
        sa.Column("digest", types.BLOB, nullable=False),
        sa.Column("grants", types.DOCUMENT, nullable=False),
        sa.Column("expires_at", types.UtcDateTime(), nullable=True),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_tenant_keys_tenants"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tenant_keys")),
        mariadb_charset="utf8mb4",
        mariadb_collate="utf8mb4_bin",
        mariadb_engine="InnoDB",
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
        mysql_engine="InnoDB",
    )
    create_index("ix_tenant_keys_tenant", "tenant_keys", ["tenant_id"], unique=False)


def downgrade() -> None:
    op.drop_index("ix_tenant_keys_tenant", table_name="tenant_keys")
    op.drop_table("tenant_keys")
    op.drop_index("ix_revisions_memory", table_name="revisions")
    op.drop_table("revisions")
    op.drop_index("ix_memory_turns_turn", table_name="memory_turns")
    op.drop_table("memory_turns")
    op.drop_table("memory_tokens")
    op.drop_index("ix_memory_entities_name", table_name="memory_entities")
    op.drop_table("memory_entities")
    op.drop_index("ix_dirty_user", table_name="dirty")
    op.drop_index("ix_dirty_due", table_name="dirty")
    op.drop_table("dirty")
    op.drop_index("uq_users_ref", table_name="users")
    op.drop_table("users")
    op.drop_table("tenants")
    op.drop_table("receipts")
    op.drop_index("ix_memories_supersedes", table_name="memories")
    op.drop_index("ix_memories_subject", table_name="memories")
    op.drop_index("ix_memories_recent", table_name="memories")
    op.drop_index("ix_memories_page", table_name="memories")
    op.drop_index("ix_memories_fingerprint", table_name="memories")
    op.drop_table("memories")
    op.drop_index("ix_audit_user", table_name="audit")
    op.drop_index("ix_audit_memory", table_name="audit")
    op.drop_table("audit")
