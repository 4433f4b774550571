"""Records: the entries themselves, in SQL, through SQLAlchemy. What is here is the truth; every index is derived from it."""

from storage.records.audit import Audit
from storage.records.deletion import Deletion
from storage.records.dirty import DirtyQueue
from storage.records.engine import Database, create_engine
from storage.records.erasing import Erasing
from storage.records.keys import Keys
from storage.records.migrate import check_schema, migrate
from storage.records.reads import Reads
from storage.records.recall import Recall
from storage.records.retraction import Retraction
from storage.records.sweep import Sweep
from storage.records.tenants import SqlTenants
from storage.records.users import Users
from storage.records.versions import SqlVersions
from storage.records.writes import Writes

__all__ = ["Database", "SqlRecords", "SqlTenants", "SqlVersions", "check_schema", "create_engine", "migrate"]


class SqlRecords(Reads, Recall, Writes, Deletion, Retraction, DirtyQueue, Sweep, Erasing, Audit, Users, Keys):
    """Records in SQL: SQLite, MySQL, MariaDB, PostgreSQL. Opened on a migrated database (storage/records/migrate.py)."""
