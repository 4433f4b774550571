"""MySQL, MariaDB and PostgreSQL as they are when something is wrong: stalled, gone, deadlocked, and how text and time lie in them."""

import asyncio
import secrets
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import Connection, make_url, text
from sqlalchemy.util import await_only

from memory.errors import ConfigError, DeadlineExceeded, StrataError, Unavailable
from memory.ids import MemoryId, SessionId, TenantId, UserId
from memory.scope import Scope, system_scope
from storage.protocols import Filters, TenantRecord
from storage.records import Database, SqlRecords, SqlTenants, create_engine, migrate
from storage.records.base import lock_user
from storage.records.schema import metadata
from tests.contract.record_backends import SERVERS, migrated_server
from tests.contract.record_cases import NOON, entry, store
from tests.faults.relay import Fault, Relay, through, upstream_of
from tests.storage.records.databases import PATIENT_S


@pytest.fixture(params=SERVERS)
def url(request: pytest.FixtureRequest) -> str:
    return migrated_server(request.getfixturevalue(request.param))


@pytest.fixture
def alice() -> Scope:
    return Scope(TenantId(f"t{secrets.token_hex(12)}"), UserId("alice"), SessionId("s1"))


@pytest.fixture
async def engine(url: str) -> AsyncIterator[Database]:
    engine = Database(url, deadline_s=PATIENT_S)
    yield engine
    await engine.dispose()


async def answers_again(records: SqlRecords) -> None:
    """Within ten seconds (generously doubled), without a restart."""
    until = time.monotonic() + 20
    while True:
        try:
            return await records.ping()
        except StrataError:
            assert time.monotonic() < until, "does not come back"
            await asyncio.sleep(0.05)


async def test_p27_a_server_that_stalls_is_a_deadline_and_comes_back(url: str, alice: Scope) -> None:
    async with Relay(upstream_of(url)) as relay:
        engine = Database(through(relay, url), deadline_s=1.0, connections=2)
        records = SqlRecords(engine)
        await answers_again(records)
        patient = SqlRecords(Database(through(relay, url), deadline_s=PATIENT_S))
        await store(patient, alice, entry(alice, "m1"))
        await relay.fault(Fault.STALLED)
        calls: list[Any] = [records.get(alice, MemoryId("m1")) for _ in range(6)]
        calls += [store(records, alice, entry(alice, f"w{i}", f"fact {i}")) for i in range(6)]
        results = await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), 30)
        assert {type(result) for result in results} == {DeadlineExceeded}
        await relay.fault(Fault.NONE)
        await answers_again(records)
        found = await asyncio.gather(*(patient.get(alice, MemoryId("m1")) for _ in range(20)))
        assert {memory.content for memory in found} == {"The user likes tea."}
        await engine.dispose()
        await patient._database.dispose()


async def test_a_server_that_is_gone_is_unavailable_and_comes_back(url: str, alice: Scope) -> None:
    async with Relay(upstream_of(url)) as relay:
        engine = Database(through(relay, url), deadline_s=5.0, connections=2)
        records = SqlRecords(engine)
        await answers_again(records)
        await relay.fault(Fault.UNREACHABLE)
        for call in (records.ping(), store(records, alice, entry(alice, "m1"))):
            with pytest.raises((Unavailable, DeadlineExceeded)) as raised:
                await call
            assert raised.value.__cause__ is None and "127.0.0.1" not in f"{raised.value!r} {raised.value.detail}"
        await relay.fault(Fault.NONE)
        await answers_again(records)
        await store(records, alice, entry(alice, "m1"))
        await engine.dispose()


async def test_connections_that_the_server_closed_are_not_noticed(url: str, alice: Scope) -> None:
    """Pre-ping: a restart, or a firewall that forgot, costs no request its answer."""
    async with Relay(upstream_of(url)) as relay:
        engine = Database(through(relay, url), deadline_s=PATIENT_S, connections=3)
        records = SqlRecords(engine)
        await store(records, alice, entry(alice, "m1"))
        await asyncio.gather(*(records.ping() for _ in range(6)))
        for _ in range(3):
            await relay.fault(Fault.UNREACHABLE)
            await relay.fault(Fault.NONE)
            assert (await records.get(alice, MemoryId("m1"))).content
            await store(records, alice, entry(alice, "m1"))
        await engine.dispose()


async def test_a_migration_of_a_server_that_says_nothing_is_given_up(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(migrate.__globals__, "_ANSWER_S", 1.0)
    async with Relay(upstream_of(url)) as relay:
        await relay.fault(Fault.STALLED)
        with pytest.raises(ConfigError, match="does not answer"):
            await asyncio.to_thread(migrate, through(relay, url))


async def test_two_transactions_that_deadlock_are_both_done(engine: Database, alice: Scope) -> None:
    """1213, 40P01: the one that the database gives up is run again from its beginning."""
    table = await counters(engine)
    holds = {1: asyncio.Event(), 2: asyncio.Event()}
    runs = {1: 0, 2: 0}

    def work(connection: Connection, mine: int, other: int) -> None:
        runs[mine] += 1
        connection.execute(text(f"UPDATE {table} SET n = n + 1 WHERE id = {mine}"))
        holds[mine].set()
        await_only(asyncio.wait_for(holds[other].wait(), PATIENT_S))
        connection.execute(text(f"UPDATE {table} SET n = n + 1 WHERE id = {other}"))

    await asyncio.gather(engine.write(lambda c: work(c, 1, 2)), engine.write(lambda c: work(c, 2, 1)))
    assert sum(runs.values()) == 3
    assert await numbers(engine, table) == [2, 2]


async def test_p39_a_writer_holds_up_nobody_but_its_own_user(engine: Database, alice: Scope) -> None:
    """The fence of a tenant is looked at by every writer and locked by none: while one of alice's is in its transaction others
    write, come for the first time, and the tenant's declaration changes."""
    records, tenants = SqlRecords(engine), SqlTenants(engine)
    shop = TenantRecord(alice.tenant_id, "Shop", {}, 1)
    await tenants.apply(system_scope(), shop, [])
    bob = replace(alice, user_id=UserId("bob"))
    for user in (alice, bob):
        await store(records, user, entry(user, f"first-{user.user}"))
    held, free = asyncio.Event(), asyncio.Event()

    def hold(connection: Connection) -> None:
        lock_user(connection, alice, NOON)
        held.set()
        await_only(asyncio.wait_for(free.wait(), PATIENT_S))

    holding = asyncio.create_task(engine.write(hold))
    await held.wait()
    behind = asyncio.create_task(store(records, alice, entry(alice, "behind")))
    for name in ("bob", "carol"):
        user = replace(alice, user_id=UserId(name))
        await store(records, user, entry(user, f"meanwhile-{name}"))
    assert await tenants.apply(system_scope(), replace(shop, display_name="Shop & Co."), [])
    assert not behind.done()
    free.set()
    await asyncio.gather(holding, behind)


async def test_a_lock_that_takes_too_long_is_waited_for_again(engine: Database) -> None:
    """1205, 55P03. MySQL rolls back the statement alone: what the transaction had written before is not written twice."""
    table = await counters(engine)
    patience = "SET LOCAL lock_timeout = '200ms'" if is_postgres(engine) else "SET SESSION innodb_lock_wait_timeout = 1"
    held, tried, runs = asyncio.Event(), asyncio.Event(), 0

    def holder(connection: Connection) -> None:
        connection.execute(text(f"UPDATE {table} SET n = n + 1 WHERE id = 2"))
        held.set()
        await_only(asyncio.wait_for(tried.wait(), PATIENT_S))

    def waiter(connection: Connection) -> None:
        nonlocal runs
        runs += 1
        if runs > 1:
            tried.set()
        connection.execute(text(patience))
        connection.execute(text(f"UPDATE {table} SET n = n + 1 WHERE id = 1"))
        connection.execute(text(f"UPDATE {table} SET n = n + 1 WHERE id = 2"))

    holding = asyncio.create_task(engine.write(holder))
    await held.wait()
    await engine.write(waiter)
    await holding
    assert runs >= 2
    assert await numbers(engine, table) == [1, 2]


async def test_a_record_that_changed_under_a_snapshot_is_read_again(mariadb: str) -> None:
    """1020: MariaDB's snapshot isolation, which later releases have on."""
    engine = Database(mariadb, deadline_s=PATIENT_S)
    table = await counters(engine)
    read, changed, runs = asyncio.Event(), asyncio.Event(), 0

    def work(connection: Connection) -> None:
        nonlocal runs
        runs += 1
        for statement in (
            "COMMIT",
            "SET SESSION innodb_snapshot_isolation = ON",
            "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
            "START TRANSACTION",
        ):
            connection.exec_driver_sql(statement)
        n = connection.scalar(text(f"SELECT n FROM {table} WHERE id = 1"))
        read.set()
        await_only(asyncio.wait_for(changed.wait(), PATIENT_S))
        connection.execute(text(f"UPDATE {table} SET n = {n} + 1 WHERE id = 1"))

    working = asyncio.create_task(engine.write(work))
    await read.wait()
    await engine.write(lambda c: c.execute(text(f"UPDATE {table} SET n = 10 WHERE id = 1")))
    changed.set()
    await working
    assert runs == 2
    assert await numbers(engine, table) == [11, 0]
    await engine.dispose()


@pytest.mark.parametrize("url", ["mysql", "mariadb"], indirect=True)
async def test_text_is_utf8mb4_ids_are_bytes_and_times_have_microseconds(engine: Database) -> None:
    query = text(
        "SELECT table_name, data_type, character_set_name, collation_name, datetime_precision "
        "FROM information_schema.columns WHERE table_schema = DATABASE()"
    )
    columns = await engine.read(lambda c: [tuple(row) for row in c.execute(query)])
    ours = [column for column in columns if column[0] in metadata.tables]
    assert {column[0] for column in ours} == set(metadata.tables)
    for column in ours:
        _, kind_of, charset, collation, precision = column
        if kind_of == "datetime":
            assert precision == 6, column
        elif kind_of == "varchar":
            assert (charset, collation) == ("ascii", "ascii_bin"), column
        elif kind_of in ("mediumtext", "longtext"):
            assert (charset, collation) == ("utf8mb4", "utf8mb4_bin"), column


@pytest.mark.parametrize("zone", ["+09:00", "-03:30"])
async def test_p17_times_are_utc_whatever_the_session_thinks(url: str, alice: Scope, zone: str) -> None:
    engine = create_engine(url, PATIENT_S)
    at = datetime(2026, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)
    setting = f"SET TIME ZONE INTERVAL '{zone}' HOUR TO MINUTE" if is_postgres(engine) else f"SET time_zone = '{zone}'"

    def insert(connection: Connection) -> None:
        connection.execute(text(setting))

    await engine.write(insert)  # the pool's one connection keeps it
    records = SqlRecords(engine)
    await store(records, alice, entry(alice, "m1", at=at))
    assert (await records.get(alice, MemoryId("m1"))).created_at == at
    for since, found in ((at, 1), (at + timedelta(microseconds=1), 0)):
        assert len((await records.page(alice, Filters(since=since), 10, None)).items) == found
    await engine.dispose()


async def test_mysql_logs_in_with_a_password_that_it_has_not_cached(mysql: str) -> None:
    """caching_sha2_password over TCP without TLS: the first login of an account goes through RSA."""
    engine = Database(mysql, deadline_s=PATIENT_S)
    name, password = f"u{secrets.token_hex(6)}", secrets.token_hex(8)
    made = f"CREATE USER {name}@'127.0.0.1' IDENTIFIED WITH caching_sha2_password BY '{password}'"
    await engine.write(lambda c: c.execute(text(made)))
    try:
        mine = make_url(mysql).set(username=name, password=password, database="")
        account = Database(mine.render_as_string(hide_password=False), deadline_s=PATIENT_S)
        assert await account.read(lambda c: c.scalar(text("SELECT CURRENT_USER()"))) == f"{name}@127.0.0.1"
        await account.dispose()
        wrong = Database(mine.set(password="wrong").render_as_string(hide_password=False), deadline_s=PATIENT_S)
        with pytest.raises(Unavailable):
            await SqlRecords(wrong).ping()
        await wrong.dispose()
    finally:
        await engine.write(lambda c: c.execute(text(f"DROP USER {name}@'127.0.0.1'")))
        await engine.dispose()


def is_postgres(engine: Database) -> bool:
    return engine.url.get_backend_name() == "postgresql"


async def counters(engine: Database) -> str:
    """A table of two rows, each with a number that is 0."""
    table = f"counters_{secrets.token_hex(6)}"

    def make(connection: Connection) -> None:
        connection.execute(text(f"CREATE TABLE {table} (id INT PRIMARY KEY, n INT NOT NULL)"))
        connection.execute(text(f"INSERT INTO {table} VALUES (1, 0), (2, 0)"))

    await engine.write(make)
    return table


async def numbers(engine: Database, table: str) -> list[int]:
    """The numbers; the table goes."""
    found = await engine.read(lambda c: list(c.scalars(text(f"SELECT n FROM {table} ORDER BY id"))))
    await engine.write(lambda c: c.execute(text(f"DROP TABLE {table}")))
    return found
