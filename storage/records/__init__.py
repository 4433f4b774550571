"""Records: the entries themselves, in SQL, through SQLAlchemy. What is here is the truth; every index is derived from it."""

from storage.records.audit import Audit
from storage.records.deletion import Deletion
from storage.records.dirty import DirtyQueue
from storage.records.engine import Database, create_engine
from storage.records.migrate import check_schema, migrate
from storage.records.reads import Reads
from storage.records.recall import Recall
from storage.records.retraction import Retraction
from storage.records.tenants import SqlTenants
from storage.records.users import Users
from storage.records.writes import Writes

__all__ = ["Database", "SqlRecords", "SqlTenants", "check_schema", "create_engine", "migrate"]


class SqlRecords(Reads, Recall, Writes, Deletion, Retraction, DirtyQueue, Audit, Users):
    """RecordStore in SQL: SQLite, MySQL, MariaDB, PostgreSQL. Opened on a migrated database (storage/records/migrate.py)."""
