"""What is still said of a user or a tenant: what an erasure counts."""

from sqlalchemy import Connection, Select, and_, func, or_, select, union_all

from memory.scope import Scope
from storage.records.schema import (
    memories,
    memory_entities,
    memory_tokens,
    memory_turns,
    revisions,
    tenant_keys,
    users,
)


def saying_rows(connection: Connection, scope: Scope) -> int:
    """Rows of scope.user, or of the whole tenant, that say something: entries that are no tombstones, what hangs on entries of
    whatever kind, keys. One statement."""
    m, u = memories.c, users.c
    mine = [m.tenant_id == scope.tenant_id]
    keyed = [u.tenant_id == scope.tenant_id, or_(u.wrapped.is_not(None), u.ref.is_not(None))]
    if scope.user_id is not None:
        mine.append(m.user_id == scope.user_id)
        keyed.append(u.user_id == scope.user_id)
    many: Select[tuple[int]] = select(func.count().label("many"))
    counts = [many.select_from(memories).where(*mine, m.deleted_at.is_(None)), many.select_from(users).where(*keyed)]
    for table in (revisions, memory_turns, memory_entities, memory_tokens):
        # By the entry that it hangs on, which has an index by user; none can be without.
        its_entry = and_(table.c.tenant_id == m.tenant_id, table.c.memory_id == m.id)
        counts.append(many.select_from(memories.join(table, its_entry)).where(*mine))
    if scope.user_id is None:
        counts.append(many.select_from(tenant_keys).where(tenant_keys.c.tenant_id == scope.tenant_id))
    each = union_all(*counts).subquery("each")
    return int(connection.scalar(select(func.sum(each.c.many))) or 0)
