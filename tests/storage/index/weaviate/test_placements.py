"""Shared or of one's own, and the way between the two while entries are written, changed and deleted."""

import asyncio
from dataclasses import dataclass, field

import numpy as np
import pytest

from memory.errors import Forbidden, InvalidInput, NotFound
from memory.ids import MemoryId, TenantId, UserRef
from memory.scope import system_scope
from storage.index.weaviate.placements import Places, everything_shared
from storage.protocols import Placement
from tests.contract.index_backends import asking, ids_of, scope, sealed, unit
from tests.storage.index.weaviate.backends import MODEL, opened

pytestmark = pytest.mark.asyncio

SYSTEM = system_scope(TenantId("acme"))


@dataclass
class Placed:
    """What a replica knows of where tenants are."""

    now: Placement = field(default_factory=lambda: Placement("shard"))

    def __call__(self, tenant_id: TenantId) -> Placement:
        return self.now


async def test_names_of_collections():
    places = Places("Strata", MODEL, everything_shared)
    assert places.shared == f"Strata_{MODEL}"
    own = {places.own(TenantId(name)) for name in ("acme", "Acme", "ac-me", "ac_me")}
    assert len({name.lower() for name in own}) == 4  # folders of a server ignore case
    others = [f"Strata_{MODEL}2", f"Strata_{MODEL}_Thello", "Strata_Health", f"Other_{MODEL}"]
    assert places.ours([*own, *others, places.shared]) == sorted([*own, places.shared])


async def test_where_is_read_and_what_is_written():
    placed = Placed()
    places = Places("Strata", MODEL, placed)
    tenant = TenantId("acme")
    shared, own = places.shared, places.own(tenant)
    for now, reading, writing in [
        (Placement("shard"), shared, [shared]),
        (Placement("shard", "collection"), shared, [shared, own]),
        (Placement("collection"), own, [own]),
        (Placement("collection", "shard"), own, [own, shared]),
        (Placement("collection", "collection"), own, [own]),
    ]:
        placed.now = now
        assert places.reading(tenant).collection == reading
        assert [place.collection for place in places.writing(tenant)] == writing


@pytest.mark.parametrize("there", ["shard", "collection"])
async def test_both_places_do_the_same(settings, there):
    vectors = unit(3)
    async with opened(settings, placements=Placed(Placement(there))) as index:
        await index.ensure_tenant(scope())
        await index.upsert(scope(), [sealed(f"m{n}", vectors[n], f"tea {n}") for n in range(3)])
        assert await index.places_of(SYSTEM) == {there}
        assert await index.tenants(SYSTEM) == {"acme"}
        hits = await index.search(scope(), asking(vectors[1], "tea"), 1, 3)
        assert hits[0].id == "m1" and len(hits) == 3
        await index.remove(scope(), [MemoryId("m1")])
        assert await index.remaining(scope(), [MemoryId(f"m{n}") for n in range(3)]) == {"m0", "m2"}
        assert await index.remove_user(scope(), UserRef("u_1")) == 2
        await index.drop_tenant(scope())
        await index.drop_tenant(scope())
        assert await index.tenants(SYSTEM) == set()
        with pytest.raises(NotFound):
            await index.upsert(scope(), [sealed("m1", vectors[0], "tea")])


@pytest.mark.parametrize(("source", "target"), [("shard", "collection"), ("collection", "shard")])
async def test_a_tenant_moves_while_it_is_written(settings, source, target):
    """At the end both places hold the same, vectors and all; what was deleted meanwhile is in neither."""
    count = 900
    vectors = unit(count + 200)
    placed = Placed(Placement(source))
    async with opened(settings, placements=placed) as index:
        await index.ensure_tenant(scope())
        for start in range(0, count, 300):
            await index.upsert(
                scope(), [sealed(f"m{n}", vectors[n], f"tea {n}", user=f"u_{n % 3}") for n in range(start, start + 300)]
            )
        await index.ensure_place(SYSTEM, target)
        placed.now = Placement(source, moving_to=target)

        async def traffic() -> None:
            rng = np.random.default_rng(0)
            for n in range(100):
                await index.upsert(scope(), [sealed(f"new{n}", vectors[count + n], "coffee")])
                changed = int(rng.integers(count // 2))
                await index.upsert(scope(), [sealed(f"m{changed}", vectors[count + 100 + n], "coffee", version=n + 2)])
                await index.remove(scope(), [MemoryId(f"m{count // 2 + n}")])

        pages: list[int] = []
        writing = asyncio.create_task(traffic())
        copied = await index.copy_tenant(SYSTEM, source, target, pages.append)
        assert sum(pages) == copied
        await writing
        expected = dict.fromkeys(await ids_of(index, scope()))
        assert len(expected) == count + 100 - 100
        versions = await index.versions(scope(), list(expected))
        answers = [await index.search(scope(), asking(vector, "tea coffee"), 20, 20) for vector in vectors[::50]]

        placed.now = Placement(target)
        assert await ids_of(index, scope()) == list(expected)
        assert await index.versions(scope(), list(expected)) == versions
        for vector, before in zip(vectors[::50], answers, strict=True):
            after = await index.search(scope(), asking(vector, "tea coffee"), 20, 20)
            cosines = {hit.id: hit.cosine for hit in before if hit.cosine is not None}
            assert {hit.id: hit.cosine for hit in after if hit.cosine is not None} == pytest.approx(cosines, abs=1e-5)
        assert await index.places_of(SYSTEM) == {source, target}
        await index.drop_place(SYSTEM, source)
        await index.drop_place(SYSTEM, source)
        assert await index.places_of(SYSTEM) == {target}
        assert await index.count(scope(), None) == len(expected)


class Cut(Exception):
    """The process ends here."""


async def test_a_copy_that_was_cut_off_runs_again(settings):
    vectors = unit(500)
    async with opened(settings) as index:
        await index.ensure_tenant(scope())
        await index.upsert(scope(), [sealed(f"m{n}", vectors[n], "tea") for n in range(500)])
        await index.ensure_place(SYSTEM, "collection")

        def cut(entries: int) -> None:
            raise Cut

        with pytest.raises(Cut):
            await index.copy_tenant(SYSTEM, "shard", "collection", cut)
        assert await index.copy_tenant(SYSTEM, "shard", "collection") == 500
        async with opened(settings, placements=Placed(Placement("collection"))) as moved:
            assert await ids_of(moved, scope()) == sorted(f"m{n}" for n in range(500))


async def test_a_copy_needs_both_places(settings):
    async with opened(settings) as index:
        await index.ensure_tenant(scope())
        await index.upsert(scope(), [sealed("m1", unit(1)[0], "tea")])
        with pytest.raises(NotFound):
            await index.copy_tenant(SYSTEM, "shard", "collection")
        with pytest.raises(NotFound):
            await index.copy_tenant(SYSTEM, "collection", "shard")
        with pytest.raises(InvalidInput):
            await index.copy_tenant(SYSTEM, "shard", "elsewhere")
        for call in (
            lambda: index.copy_tenant(scope(), "shard", "collection"),
            lambda: index.ensure_place(scope(), "collection"),
            lambda: index.drop_place(scope(), "shard"),
            lambda: index.places_of(scope()),
            lambda: index.drop_collections(scope()),
        ):
            with pytest.raises(Forbidden):
                await call()


async def test_a_half_made_move_loses_no_write(settings):
    """The new place is announced before it is made: writes are refused until it is there, and taken by both then."""
    async with opened(settings, placements=Placed(Placement("shard", moving_to="collection"))) as index:
        await index.ensure_place(SYSTEM, "shard")
        with pytest.raises(NotFound):
            await index.upsert(scope(), [sealed("m1", unit(1)[0], "tea")])
        await index.ensure_tenant(scope())
        await index.upsert(scope(), [sealed("m1", unit(1)[0], "tea")])
        assert await index.places_of(SYSTEM) == {"shard", "collection"}
        await index.remove(scope(), [MemoryId("m1")])
        assert await index.remaining(scope(), [MemoryId("m1")]) == set()
