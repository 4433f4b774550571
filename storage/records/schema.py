"""The tables. Tenant and user are in each that belongs to a user, and in every WHERE.

An entry's children hang on its row by foreign keys: token vectors, history or a dirty mark without their row cannot exist
(P26), and a key used again finds nothing of its predecessor (P28).
"""

from typing import Any

from sqlalchemy import Boolean, Column, ForeignKeyConstraint, Index, Integer, MetaData, Table

from storage.records.types import BLOB, CONTENT, COUNTER, DIGEST, DOCUMENT, ID, NUMBER, WORD, UtcDateTime

metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(referred_table_name)s",
    }
)

_OPTIONS: dict[str, Any] = {
    "mysql_engine": "InnoDB",
    "mysql_charset": "utf8mb4",
    "mysql_collate": "utf8mb4_bin",
    "mariadb_engine": "InnoDB",
    "mariadb_charset": "utf8mb4",
    "mariadb_collate": "utf8mb4_bin",
}


def _of_memory() -> ForeignKeyConstraint:
    return ForeignKeyConstraint(["tenant_id", "memory_id"], ["memories.tenant_id", "memories.id"], ondelete="CASCADE")


users = Table(
    "users",
    metadata,
    Column("tenant_id", ID, primary_key=True),
    Column("user_id", ID, primary_key=True),
    Column("ref", ID),  # null until the key is made: the row may be there before, as the lock of a user's writers
    Column("wrapped", BLOB),
    Column("created_at", UtcDateTime, nullable=False),
    Column("erasing_at", UtcDateTime),  # the fence: since when no write for this user is let through
    Index("uq_users_ref", "ref", unique=True),
    **_OPTIONS,
)

memories = Table(
    "memories",
    metadata,
    Column("tenant_id", ID, primary_key=True),
    Column("id", ID, primary_key=True),
    Column("user_id", ID, nullable=False),
    Column("kind", WORD, nullable=False),
    Column("content", CONTENT),  # null in a tombstone, as is all that says something
    Column("source", WORD, nullable=False),
    Column("status", WORD, nullable=False),
    Column("language", WORD),
    Column("importance", NUMBER, nullable=False),
    Column("confidence", NUMBER, nullable=False),
    Column("version", Integer, nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    Column("updated_at", UtcDateTime, nullable=False),
    Column("subject", CONTENT),
    Column("value", CONTENT),
    Column("exclusive", Boolean, nullable=False),
    Column("entities", DOCUMENT),
    Column("session_id", ID),
    Column("turn_ids", DOCUMENT),
    Column("context_turn_ids", DOCUMENT),
    Column("last_access_at", UtcDateTime),
    Column("access_count", Integer, nullable=False),
    Column("hit_count", Integer, nullable=False),
    Column("valid_from", UtcDateTime),
    Column("valid_to", UtcDateTime),
    Column("supersedes", ID),
    Column("metadata", DOCUMENT),
    Column("subject_digest", DIGEST),
    Column("sort_digest", DIGEST),  # of a subject `favourite:player`: that of `favourite`
    Column("fingerprint_digest", DIGEST),
    Column("deleted_at", UtcDateTime),
    Column("receipt_id", ID),
    Column(
        "analysis", CONTENT
    ),  # the content's terms (memory/analysis.py); null where an earlier release wrote the entry
    Index("ix_memories_page", "tenant_id", "user_id", "created_at", "id"),
    Index("ix_memories_recent", "tenant_id", "user_id", "status", "importance", "created_at"),
    Index("ix_memories_subject", "tenant_id", "user_id", "subject_digest"),
    Index("ix_memories_sort", "tenant_id", "user_id", "sort_digest"),
    Index("ix_memories_fingerprint", "tenant_id", "user_id", "fingerprint_digest"),
    Index("ix_memories_supersedes", "tenant_id", "user_id", "supersedes"),
    **_OPTIONS,
)

memory_turns = Table(
    "memory_turns",
    metadata,
    Column("tenant_id", ID, primary_key=True),
    Column("memory_id", ID, primary_key=True),
    Column("role", WORD, primary_key=True),  # source | context
    Column("session_id", ID, primary_key=True),
    Column("turn_id", ID, primary_key=True),
    Column("user_id", ID, nullable=False),
    _of_memory(),
    Index("ix_memory_turns_turn", "tenant_id", "user_id", "session_id", "turn_id"),
    **_OPTIONS,
)

memory_entities = Table(
    "memory_entities",
    metadata,
    Column("tenant_id", ID, primary_key=True),
    Column("memory_id", ID, primary_key=True),
    Column("name_digest", DIGEST, primary_key=True),
    Column("user_id", ID, nullable=False),
    _of_memory(),
    Index("ix_memory_entities_name", "tenant_id", "user_id", "name_digest"),
    **_OPTIONS,
)

memory_tokens = Table(
    "memory_tokens",
    metadata,
    Column("tenant_id", ID, primary_key=True),
    Column("memory_id", ID, primary_key=True),
    Column("model_key", ID, primary_key=True),
    Column("user_id", ID, nullable=False),
    Column("version", Integer, nullable=False),
    Column("dimension", Integer, nullable=False),
    Column("tokens", BLOB, nullable=False),
    Column("stored_at", UtcDateTime, nullable=False),
    _of_memory(),
    **_OPTIONS,
)

revisions = Table(
    "revisions",
    metadata,
    Column("number", COUNTER, primary_key=True, autoincrement=True),
    Column("tenant_id", ID, nullable=False),
    Column("user_id", ID, nullable=False),
    Column("memory_id", ID, nullable=False),
    Column("version", Integer, nullable=False),
    Column("content", CONTENT, nullable=False),
    Column("kind", WORD, nullable=False),
    Column("status", WORD, nullable=False),
    Column("confidence", NUMBER, nullable=False),
    Column("at", UtcDateTime, nullable=False),
    Column("change", WORD, nullable=False),
    Column("session_id", ID),
    # What retracting a turn needs to take this wording back: the turns that it came with, and what was normalised from it.
    Column("turns", DOCUMENT, nullable=False),
    Column("fingerprint_digest", DIGEST),
    Column("entities", DOCUMENT),
    _of_memory(),
    Index("ix_revisions_memory", "tenant_id", "memory_id", "number"),
    **_OPTIONS,
)

dirty = Table(
    "dirty",
    metadata,
    Column("tenant_id", ID, primary_key=True),
    Column("memory_id", ID, primary_key=True),
    Column("user_id", ID, nullable=False),
    Column("mark", COUNTER, nullable=False),
    Column("phase", WORD, nullable=False),  # apply | verify
    Column("since", UtcDateTime, nullable=False),
    Column("due_at", UtcDateTime, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("owner", WORD),
    Column("lease_until", UtcDateTime),
    _of_memory(),
    Index("ix_dirty_due", "due_at"),
    Index("ix_dirty_user", "tenant_id", "user_id"),
    **_OPTIONS,
)

audit = Table(
    "audit",
    metadata,
    # Append only; one row for each entry that an event names, so that "who read this entry" is one look-up.
    Column("number", COUNTER, primary_key=True, autoincrement=True),
    Column("tenant_id", ID, nullable=False),
    Column("user_id", ID),
    Column("event_id", ID, nullable=False),
    Column("at", UtcDateTime, nullable=False),
    Column("action", WORD, nullable=False),
    Column("actor", CONTENT, nullable=False),
    Column("memory_id", ID),
    Column("session_id", ID),
    Column("reason", CONTENT, nullable=False),
    Index("ix_audit_memory", "tenant_id", "memory_id"),
    Index("ix_audit_user", "tenant_id", "user_id", "at"),
    **_OPTIONS,
)

receipts = Table(
    "receipts",
    metadata,
    Column("tenant_id", ID, primary_key=True),
    Column("id", ID, primary_key=True),
    Column("user_id", ID),  # null where a whole tenant went
    Column("action", WORD, nullable=False),
    Column("count", Integer, nullable=False),
    Column("pending", Integer, nullable=False),  # tombstones whose absence from the index is not yet verified
    Column("requested_at", UtcDateTime, nullable=False),
    Column("records_at", UtcDateTime, nullable=False),
    Column("completed_at", UtcDateTime),
    Column("stores", DOCUMENT),  # {store: {before, after, method, at}}
    **_OPTIONS,
)

erasures = Table(
    "erasures",
    metadata,
    # One row for each user or tenant that is being erased; it goes when the receipt is complete.
    Column("tenant_id", ID, primary_key=True),
    Column("receipt_id", ID, primary_key=True),
    Column("user_id", ID),
    Column("refs", DOCUMENT, nullable=False),  # what the index knew the user by: random, says nothing of him
    Column("phase", WORD, nullable=False),  # erase | verify
    Column("due_at", UtcDateTime, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("owner", WORD),
    Column("lease_until", UtcDateTime),
    Column("requested_at", UtcDateTime, nullable=False),
    Index("ix_erasures_due", "due_at"),
    Index("ix_erasures_user", "tenant_id", "user_id"),
    **_OPTIONS,
)

index_versions = Table(
    "index_versions",
    metadata,
    Column("model_key", ID, primary_key=True),
    Column("dimension", Integer, nullable=False),
    Column("state", WORD, nullable=False),
    Column("details", DOCUMENT, nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    Column("activated_at", UtcDateTime),
    Column("at_tenant_id", ID),  # how far a reindex has come
    Column("at_memory_id", ID),
    **_OPTIONS,
)

placements = Table(
    "placements",
    metadata,
    Column("tenant_id", ID, primary_key=True),
    Column("model_key", ID, primary_key=True),
    Column("place", WORD, nullable=False),
    Column("moving_to", WORD),
    Column("since", UtcDateTime, nullable=False),
    **_OPTIONS,
)

tenants = Table(
    "tenants",
    metadata,
    Column("id", ID, primary_key=True),
    Column("display_name", CONTENT, nullable=False),
    Column("policy", DOCUMENT, nullable=False),
    Column("version", Integer, nullable=False),
    Column("suspended", Boolean, nullable=False),
    Column("erasing_at", UtcDateTime),
    **_OPTIONS,
)

tenant_keys = Table(
    "tenant_keys",
    metadata,
    Column("id", ID, primary_key=True),
    Column("tenant_id", ID, nullable=False),
    Column("name", CONTENT, nullable=False),
    Column("digest", BLOB, nullable=False),
    Column("grants", DOCUMENT, nullable=False),
    Column("expires_at", UtcDateTime),
    ForeignKeyConstraint(["tenant_id"], ["tenants.id"], ondelete="CASCADE"),
    Index("ix_tenant_keys_tenant", "tenant_id"),
    **_OPTIONS,
)
