"""How alembic runs here: always on a connection that storage/records/migrate.py opened, in its transaction."""

from alembic import context

from storage.records.schema import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    transactional_ddl=context.config.attributes["connection"].dialect.name not in ("mysql", "mariadb"),
    compare_type=True,
)
with context.begin_transaction():
    context.run_migrations()
