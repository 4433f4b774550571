"""I1: there is no way into a store without saying who asks. What is of no tenant alone asks nobody: whether a store is there."""

import inspect
from collections.abc import Iterator
from typing import Protocol, get_type_hints

import pytest

from memory.scope import Scope
from storage import protocols
from storage.records import SqlRecords, SqlTenants, SqlVersions

EXEMPT = {"ping", "check", "aclose"}


def stores() -> Iterator[type]:
    for thing in vars(protocols).values():
        if inspect.isclass(thing) and Protocol in thing.__mro__ and thing.__module__.startswith(protocols.__name__):
            yield thing


def methods(store: type) -> list[str]:
    names = [name for name, member in inspect.getmembers(store, inspect.isfunction) if not name.startswith("_")]
    return [name for name in names if name not in EXEMPT]


class VersionsAndPlacements(protocols.VersionStore, protocols.PlacementStore, Protocol):
    """What one object in SQL is both of."""


PROTOCOLS = list(stores())
IMPLEMENTATIONS: list[tuple[type, type]] = [
    (SqlRecords, protocols.Records),
    (SqlTenants, protocols.TenantStore),
    (SqlVersions, VersionsAndPlacements),
]
CASES = [(store, name) for store in [*PROTOCOLS, *(i for i, _ in IMPLEMENTATIONS)] for name in methods(store)]


def test_the_protocols_are_seen() -> None:
    names = {p.__name__ for p in PROTOCOLS}
    assert names >= {
        "ErasureStore",
        "IdempotencyStore",
        "PlacementStore",
        "RecordStore",
        "Records",
        "SessionStore",
        "TenantStore",
        "VectorIndex",
        "VersionStore",
        "WorkQueue",
    }


@pytest.mark.parametrize(("store", "name"), CASES, ids=lambda part: getattr(part, "__name__", part))
def test_p20_the_scope_comes_first(store: type, name: str) -> None:
    method = getattr(store, name)
    first = list(inspect.signature(method).parameters.values())[1]
    assert first.name == "scope"
    assert get_type_hints(method)["scope"] is Scope
    assert first.default is inspect.Parameter.empty  # a scope that can be left out will be


@pytest.mark.parametrize(("store", "protocol"), IMPLEMENTATIONS, ids=lambda part: part.__name__)
def test_an_implementation_offers_its_protocol_and_no_way_around_it(store: type, protocol: type) -> None:
    assert set(methods(store)) == set(methods(protocol))
    for name in methods(protocol):
        theirs, ours = (list(inspect.signature(getattr(t, name)).parameters) for t in (protocol, store))
        assert ours == theirs, name
