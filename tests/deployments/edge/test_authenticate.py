"""A Scope comes from a verified credential and from nothing else; what a request says only narrows it. Against a real SQLite."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import pytest_asyncio

from deployments.edge.authenticate import Authenticator, session_caller
from deployments.edge.caller import Caller
from deployments.edge.credentials import Pepper, TokenKeys, key_digest, new_key, split_key
from deployments.policies import PolicyCache
from memory.errors import Forbidden, InvalidInput, NotFound, Unauthenticated, Unavailable
from memory.ids import SessionId, TenantId, UserId
from memory.scope import Grant, Scope, system_scope
from memory.turns import Session
from storage.protocols import KeyRecord, TenantRecord
from storage.records import SqlTenants, create_engine, migrate

NOON = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
PEPPER = Pepper(b"p" * 32)
TOKENS = TokenKeys({"k1": "a" * 32}, "k1")
SHOP = TenantId("shop")


class Clock:
    now = NOON

    def __call__(self) -> datetime:
        return self.now


class Away(SqlTenants):
    """The real store, whose server can be taken away."""

    away = False
    reads = 0

    async def key(self, scope, key_id):
        self.reads += 1
        if self.away:
            raise Unavailable("records")
        return await super().key(scope, key_id)


@dataclass
class World:
    store: Away
    policies: PolicyCache
    authenticator: Authenticator
    clock: Clock
    key: str

    async def declare(self, tenant=SHOP, suspended=False, key=None, **fields):
        key_id, secret = split_key(key or self.key)
        record = KeyRecord(key_id, tenant, "main", key_digest(secret, PEPPER), frozenset({Grant.MEMORY}))
        keys = [replace(record, **fields)] if key != "" else []
        await self.store.apply(system_scope(), TenantRecord(tenant, tenant, {}, 0, suspended), keys)

    async def by(self, credential: str) -> Caller:
        return await self.authenticator.authenticate(f"Bearer {credential}", "req_1")


@pytest_asyncio.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    url = f"sqlite+aiosqlite:///{tmp_path}/records.db"
    await asyncio.to_thread(migrate, url)
    engine = create_engine(url)
    store, clock = Away(engine), Clock()
    policies = PolicyCache(store)
    world = World(store, policies, Authenticator(store, policies, TOKENS, PEPPER, clock), clock, new_key("main"))
    await world.declare()
    yield world
    await engine.dispose()


async def test_a_key_makes_a_scope_of_its_tenant(world):
    caller = await world.by(world.key)
    assert caller.scope == Scope(SHOP, grants=frozenset({Grant.MEMORY}))
    assert caller.actor == "key:main"
    assert caller.request_id == "req_1"
    assert not caller.by_session


async def test_a_token_makes_a_scope_of_its_session(world):
    key = await world.by(world.key)
    session = Session(SessionId("s1"), UserId("alice"), NOON, NOON, time_zone="Asia/Shanghai")
    token, expires_at = world.authenticator.issue_token(key, session)
    assert expires_at == NOON + timedelta(seconds=key.policy.session.token_seconds)
    caller = await world.by(token)
    assert caller.scope == Scope(SHOP, UserId("alice"), SessionId("s1"), frozenset({Grant.MEMORY}))
    assert (caller.actor, caller.time_zone, caller.by_session) == ("session:s1", "Asia/Shanghai", True)


async def test_a_token_issues_no_token_for_another(world):
    key = await world.by(world.key)
    token, _ = world.authenticator.issue_token(key, Session(SessionId("s1"), UserId("alice"), NOON, NOON))
    caller = await world.by(token)
    with pytest.raises(NotFound):
        world.authenticator.issue_token(caller, Session(SessionId("s1"), UserId("bob"), NOON, NOON))
    with pytest.raises(NotFound):
        world.authenticator.issue_token(caller, Session(SessionId("s2"), UserId("alice"), NOON, NOON))


async def test_a_remembered_token_expires_all_the_same(world):
    session = Session(SessionId("s1"), UserId("alice"), NOON, NOON)
    token, expires_at = world.authenticator.issue_token(await world.by(world.key), session)
    await world.by(token)
    world.clock.now = expires_at + timedelta(seconds=10)
    with pytest.raises(Unauthenticated):
        await world.by(token)
    for number in range(50):
        other = replace(session, id=SessionId(f"s{number}"))
        with pytest.raises(Unauthenticated):  # a changed signature is no remembered token
            await world.by(world.authenticator.issue_token(await world.by(world.key), other)[0][:-4] + "AAAA")
    assert len(world.authenticator._verified) == 0


@pytest.mark.parametrize(
    "header",
    [None, "", "Bearer", "Bearer ", "Basic YTpi", "Bearer nonsense", "Bearer sk_main_short", "Bearer st_a.b.c", "sk_x"],
)
async def test_no_credential_or_none_of_ours(world, header):
    with pytest.raises(Unauthenticated):
        await world.authenticator.authenticate(header, "req_1")


async def test_a_wrong_secret_and_an_unknown_id_answer_alike(world):
    said = set()
    for key in (new_key("main"), new_key("other")):
        with pytest.raises(Unauthenticated) as refused:
            await world.by(key)
        said.add(refused.value.detail)
    assert len(said) == 1


async def test_an_expired_key(world):
    await world.declare(expires_at=NOON + timedelta(seconds=1))
    await world.by(world.key)
    world.clock.now = NOON + timedelta(seconds=1)
    with pytest.raises(Unauthenticated):
        await world.by(world.key)


async def test_a_revoked_key_is_refused_within_seconds(world):
    await world.by(world.key)
    await world.declare(key=new_key("next"))
    world.clock.now += timedelta(seconds=6)
    with pytest.raises(Unauthenticated):
        await world.by(world.key)


async def test_a_change_of_the_tenant_forgets_its_keys_at_once(world):
    await world.by(world.key)
    await world.declare(key=new_key("next"))
    await world.policies.refresh()
    with pytest.raises(Unauthenticated):
        await world.by(world.key)


async def test_a_suspended_tenant_is_refused_key_and_token_alike(world):
    token, _ = world.authenticator.issue_token(
        await world.by(world.key), Session(SessionId("s1"), UserId("alice"), NOON, NOON)
    )
    await world.declare(suspended=True)
    await world.policies.refresh()
    for credential in (world.key, token):
        with pytest.raises(Forbidden) as refused:
            await world.by(credential)
        assert "suspended" in refused.value.detail


async def test_a_token_of_a_tenant_that_is_gone(world):
    other = Authenticator(world.store, world.policies, TOKENS, PEPPER, world.clock)
    caller = replace(await world.by(world.key), scope=Scope(TenantId("gone")))
    token, _ = other.issue_token(caller, Session(SessionId("s1"), UserId("alice"), NOON, NOON))
    with pytest.raises(Unauthenticated):
        await world.by(token)


async def test_no_key_carries_stratas_own_grant(world):
    await world.declare(grants=frozenset({Grant.MEMORY, Grant.SYSTEM}))
    assert Grant.SYSTEM not in (await world.by(world.key)).scope.grants


async def test_p22_a_key_without_grants_may_nothing(world):
    await world.declare(grants=frozenset())
    with pytest.raises(Forbidden):
        (await world.by(world.key)).scope.require(Grant.MEMORY)


async def test_an_outage_of_the_store_ends_no_known_key(world):
    await world.by(world.key)
    world.store.away = True
    world.clock.now += timedelta(minutes=5)
    await world.by(world.key)
    world.clock.now += timedelta(minutes=6)  # but not for ever
    with pytest.raises(Unavailable):
        await world.by(world.key)
    with pytest.raises(Unavailable):
        await world.by(new_key("unknown"))


async def test_keys_are_read_once_in_a_while_and_the_cache_is_bounded(world):
    for _ in range(50):
        await world.by(world.key)
    assert world.store.reads == 1
    small = Authenticator(world.store, world.policies, TOKENS, PEPPER, world.clock, cache_size=2)
    for number in range(5):
        key = new_key(f"k{number}")
        await world.declare(TenantId(f"t{number}"), key=key)
        await small.authenticate(f"Bearer {key}", "req_1")
    assert len(small._known) == 2


async def test_p20_a_user_id_only_narrows(world):
    key = await world.by(world.key)
    assert key.for_user("alice").scope.user == "alice"
    with pytest.raises(InvalidInput) as refused:
        key.for_user(None)  # never all users
    assert refused.value.field == "user_id"
    token = replace(key, scope=Scope(SHOP, UserId("alice"), SessionId("s1")), actor="session:s1")
    assert token.for_user(None).scope.user == "alice"
    assert token.for_user("alice").scope == token.scope
    with pytest.raises(NotFound):
        token.for_user("bob")


@pytest.mark.parametrize(
    "name", ["Alice", "alice ", " alice", "alice@x", "alice\n", "ａlice", "alice%20", "", "a" * 65]
)
async def test_p24_lookalike_user_ids_are_other_users_or_refused(world, name):
    token = replace(await world.by(world.key), scope=Scope(SHOP, UserId("alice"), SessionId("s1")))
    with pytest.raises((NotFound, InvalidInput)):
        token.for_user(name)


class Sessions:
    """Which sessions there are: all that this rule asks of the store (whose own tests are the contract suite's)."""

    async def owner(self, scope: Scope) -> UserId:
        if (scope.tenant_id, scope.session) != (SHOP, "s1"):
            raise NotFound("session")
        return UserId("alice")


@dataclass
class Services:
    sessions: Sessions


async def test_p23_a_session_is_the_tokens_own_or_the_tenants(world):
    services = Services(Sessions())
    key = await world.by(world.key)
    assert (await session_caller(services, key, "s1")).scope.user == "alice"
    with pytest.raises(NotFound):
        await session_caller(services, key, "s2")
    with pytest.raises(NotFound):  # another tenant's key
        await session_caller(services, replace(key, scope=Scope(TenantId("other"))), "s1")
    with pytest.raises(NotFound):  # the tenant's own session, but not of the user that the call names
        await session_caller(services, key.for_user("bob"), "s1")
    assert (await session_caller(services, key.for_user("alice"), "s1")).scope.user == "alice"
    token = replace(key, scope=Scope(SHOP, UserId("alice"), SessionId("s1")), actor="session:s1")
    assert (await session_caller(services, token, "s1")).scope == token.scope
    with pytest.raises(NotFound):
        await session_caller(services, token, "s2")
    with pytest.raises(InvalidInput):
        await session_caller(services, key, "s1 ")
